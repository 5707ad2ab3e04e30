// The calls that replay one Monitor: create a draft, cancel it, replay it over the window. The monitor stays as it is.
import { ApiProblem, classify, isGone, isProblem } from '../../../../client/api-problem.ts';
import type { CallOptions, RestClient } from '../../../../client/rest-client.ts';
import type { OperationRequest } from '../../../../contract/operations/operations.ts';
import { contentHash } from '../../../pass/desired-hash.ts';
import type { Held } from '../../../pass/identity.ts';
import { problemText } from '../../../resources/problem-text.ts';
import type { RuleProposal } from '../definition.ts';
import type { ReplayCause, ReplayOutcome } from './replay-progress.ts';

/** What is replayed, on every Monitor alike. */
export interface ReplayProposal extends ReplayCause, RuleProposal {
  /** Of the Rule. */
  uid: string;
}

export interface ReplayCall {
  monitor: Pick<Held, 'id' | 'projectId'>;
  window: { since: string; until: string };
  signal: AbortSignal;
  /** How often this Monitor has failed in a row. */
  failures: number;
}

/** A replay reads up to 30 days of observations. */
const TIMEOUT_MS = 60_000;
/** A monitor whose replay never ends in time is left out, or it would hold up the others for ever. */
const MOST_TIMEOUTS = 3;

/**
 * Replays a proposal on a monitor. A refusal is an outcome, too. Throws ApiProblem where the same call may succeed later.
 *
 * The draft is canceled before the replay, which reads closed drafts too: a replay that fails or is lost leaves none open.
 * Repeated calls have the same keys, so that a crash at any place opens no second draft.
 */
export async function replayMonitor(
  api: Pick<RestClient, 'call'>,
  proposal: ReplayProposal,
  call: ReplayCall,
): Promise<ReplayOutcome> {
  try {
    return { numbers: await replay(api, proposal, call) };
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
    const kind = classify(error);
    if (kind === 'permanent' || kind === 'conflict' || kind === 'gone')
      return { omission: { reason: error.code, message: problemText(error) } };
    if (error instanceof ReplayTimeout && call.failures + 1 >= MOST_TIMEOUTS)
      return { omission: { reason: 'Timeout', message: error.detail } };
    throw error;
  }
}

/** The API answers, but not to the replay. */
class ReplayTimeout extends ApiProblem {}

async function replay(
  api: Pick<RestClient, 'call'>,
  { uid, generation, request: cause, measurementKey, definition }: ReplayProposal,
  { monitor, window, signal }: ReplayCall,
) {
  const params = { monitorId: monitor.id };
  const options = { project: monitor.projectId, correlationId: `rule/${uid}`, signal };
  const proposal = { measurementKey, definition };
  const hash = contentHash({ ...monitor, cause, proposal });
  const creation = { params, body: { proposal }, idempotencyKey: `rule-draft:${uid}:${generation}:${hash}` };
  const { body: draft } = await api.call('createDraft', creation, options);
  const draftId = draft.id;
  await cancel(api, { params, body: { draftId }, idempotencyKey: `rule-cancel:${draftId}` }, options);
  try {
    const request = { params, body: { draftId, ...window } };
    // A late answer says nothing about the API: it has just answered.
    const patience = { timeoutMs: TIMEOUT_MS, isLongPoll: true };
    const { body } = await api.call('replayDraft', request, { ...options, ...patience });
    return {
      observationCount: body.window.observationCount,
      currentIncidents: body.current.incidents.length,
      proposedIncidents: body.proposed.incidents.length,
      added: body.difference.added.length,
      removed: body.difference.removed.length,
      refusedCount: body.proposed.refusedCount,
    };
  } catch (error) {
    if (!isProblem(error) || error.code !== 'timeout') throw error;
    throw new ReplayTimeout({ status: 0, code: error.code, detail: error.detail }, { cause: error });
  }
}

/** Does nothing for a draft that is closed or deleted already. */
async function cancel(
  api: Pick<RestClient, 'call'>,
  request: OperationRequest<'cancelDraft'>,
  options: CallOptions,
): Promise<void> {
  try {
    await api.call('cancelDraft', request, options);
  } catch (error) {
    if (isGone(error) || (isProblem(error) && error.code === 'service.draft_closed')) return;
    throw error;
  }
}
