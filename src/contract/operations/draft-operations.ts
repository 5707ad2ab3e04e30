// Operations on drafts of rules (docs/contract/rules.md).
import { z } from 'zod';
import { identifier } from '../fields/field.ts';
import { jurisdictionQuery, pageOf, pageQuery } from '../fields/paging.ts';
import {
  applyDraftBody,
  cancelDraftBody,
  createDraftBody,
  draft,
  draftReplay,
  OF_DRAFTS,
  replayDraftBody,
  updateDraftBody,
} from '../resources/draft.ts';
import { ruleSuggestion, suggestRuleBody } from '../resources/rule-suggestion.ts';
import { operation } from './operation.ts';

const WORKBENCH = '/v1/monitors/{monitorId}/rule-workbench';
const DRAFTS = `${WORKBENCH}/drafts`;
const params = z.strictObject({ monitorId: identifier });
const query = z.strictObject(jurisdictionQuery);
const base = { tag: 'Drafts of rules', project: 'required', params, query } as const;

export const draftOperations = {
  suggestRule: operation({
    ...base,
    operationId: 'suggestRule',
    method: 'POST',
    path: `${WORKBENCH}/suggest`,
    summary: 'Suggest a rule',
    description:
      'Bounds from the quantiles of the newest observations, up to 50,000 of the last 30 days, the share of past values that they would have flagged, and the incidents that they would have opened. It changes nothing.',
    preset: 'read',
    body: suggestRuleBody,
    changesNothing: true,
    success: 200,
    response: ruleSuggestion,
  }),
  createDraft: operation({
    ...base,
    operationId: 'createDraft',
    method: 'POST',
    path: DRAFTS,
    summary: 'Create a draft of a rule',
    description: `Freezes the newest observations, up to 200, as the window that replays read. ${OF_DRAFTS}`,
    preset: 'manage',
    body: createDraftBody,
    idempotent: true,
    success: 201,
    response: draft,
  }),
  listDrafts: operation({
    ...base,
    operationId: 'listDrafts',
    method: 'GET',
    path: DRAFTS,
    summary: 'List the drafts of a monitor',
    description: 'Newest first, closed ones included.',
    preset: 'read',
    query: z.strictObject({ ...jurisdictionQuery, ...pageQuery }),
    success: 200,
    response: pageOf(draft),
  }),
  getDraft: operation({
    ...base,
    operationId: 'getDraft',
    method: 'GET',
    path: `${DRAFTS}/{draftId}`,
    summary: 'Get a draft',
    preset: 'read',
    params: z.strictObject({ monitorId: identifier, draftId: identifier }),
    success: 200,
    response: draft,
  }),
  updateDraft: operation({
    ...base,
    operationId: 'updateDraft',
    method: 'POST',
    path: `${DRAFTS}/update`,
    summary: 'Replace the proposal of a draft',
    description: 'The window stays. A stale `expectedDraftVersion` is a 409.',
    preset: 'manage',
    body: updateDraftBody,
    idempotent: true,
    success: 200,
    response: draft,
  }),
  replayDraft: operation({
    ...base,
    operationId: 'replayDraft',
    method: 'POST',
    path: `${DRAFTS}/replay`,
    summary: 'Replay a draft',
    description:
      'The incidents that the window would have opened by the rule that the monitor has and by the proposed one. With `since` the observations of a span of up to 30 days take the place of the window. It changes nothing, and closed drafts can be replayed too.',
    preset: 'read',
    body: replayDraftBody,
    changesNothing: true,
    success: 200,
    response: draftReplay,
  }),
  applyDraft: operation({
    ...base,
    operationId: 'applyDraft',
    method: 'POST',
    path: `${DRAFTS}/apply`,
    summary: 'Apply a draft',
    description:
      'Replaces the whole rule of the measurement, as a configuration update of the monitor, and closes the draft. A stale version is a 412.',
    preset: 'manage',
    body: applyDraftBody,
    idempotent: true,
    success: 200,
    response: draft,
  }),
  cancelDraft: operation({
    ...base,
    operationId: 'cancelDraft',
    method: 'POST',
    path: `${DRAFTS}/cancel`,
    summary: 'Cancel a draft',
    description: 'Closes it. The monitor stays as it is. A stale `expectedDraftVersion` is a 409.',
    preset: 'manage',
    body: cancelDraftBody,
    idempotent: true,
    success: 200,
    response: draft,
  }),
};
