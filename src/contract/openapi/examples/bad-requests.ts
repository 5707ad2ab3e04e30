// Examples of refusals for what a request says: 400.
import type { OperationSpec } from '../../operations/operation.ts';
import { FOREIGN_CHECKPOINT } from '../../resources/export.ts';
import { only, type Refusal } from './refusal.ts';

const has = (parameter: string) => (spec: OperationSpec) => parameter in (spec.query?.shape ?? {});
const takesUrl = only('createMonitor', 'setMonitorBinding', 'createCallback', 'updateCallback');

const fault = (path: string, code: string, message: string) => ({
  detail: `The request is not valid. ${path}: ${message}`,
  fieldErrors: [{ code, message, path }],
});
const required = (path: string) => fault(path, 'required', 'This is required: state it.');

export const BAD_REQUEST = {
  missingBody: {
    code: 'validation_failed',
    summary: 'There is no body.',
    ...fault('body', 'required', 'The request has no body: send a JSON object, at least {}.'),
    by: ({ body, bodyOptional }) => body !== undefined && !bodyOptional,
  },
  missingKey: {
    code: 'validation_failed',
    summary: 'There is no `Idempotency-Key`.',
    ...required('Idempotency-Key'),
    by: ({ idempotent }) => idempotent === true,
  },
  malformedETag: {
    code: 'validation_failed',
    summary: '`If-Match` is not one ETag with its quotes.',
    ...fault(
      'If-Match',
      'invalid_format',
      'Must be one ETag from an earlier read, with its quotes, such as "configuration-7".',
    ),
    by: ({ ifMatch }) => ifMatch !== undefined,
  },
  badLimit: {
    code: 'validation_failed',
    summary: 'A query parameter is not valid.',
    ...fault('limit', 'too_big', 'Must be at most 200.'),
    by: has('limit'),
  },
  badWait: {
    code: 'validation_failed',
    summary: 'A query parameter is not valid.',
    ...fault('waitSeconds', 'too_big', 'Must be at most 30.'),
    by: (spec) => has('waitSeconds')(spec) && !has('limit')(spec),
  },
  unknownParameter: {
    code: 'validation_failed',
    summary: 'The query has a parameter that the operation does not know.',
    ...fault('verbose', 'unknown_field', 'Remove it: this operation has no such query parameter.'),
    by: ({ method, query }) => method === 'GET' && query === undefined,
  },
  badOperator: {
    code: 'validation_failed',
    summary: 'The path names no operator.',
    ...fault(
      'operatorId',
      'invalid_format',
      'Must start with a letter or digit, then letters, digits, ".", "_", ":", "/", "@" or "-", at most 256 characters.',
    ),
    by: only('signOperator', 'setOperatorCauses'),
  },
  missingProject: {
    code: 'validation_failed',
    summary: 'A session names no project.',
    ...fault('Service-Project', 'required', 'Name one project of the organization, by its id or name.'),
    by: ({ project }) => project === 'required',
  },
  unknownNotifier: {
    code: 'validation_failed',
    summary: 'The relay has no such notifier.',
    ...fault('notifierId', 'unknown_notifier', 'Use a notifier of this installation: ntfy.'),
    by: only('connectRelay'),
  },
  foreignCheckpoint: {
    code: 'validation_failed',
    summary: 'The cursor is none of this export.',
    ...fault('cursor', 'invalid_cursor', FOREIGN_CHECKPOINT),
    by: only('exportOrganization'),
  },
  destination: {
    code: 'callback_destination_rejected',
    summary: 'The host of the URL leads to a private or reserved address, or to none.',
    detail: 'The host leads to a private or reserved address. Use a public receiver.',
    by: takesUrl,
  },
} satisfies Record<string, Refusal>;
