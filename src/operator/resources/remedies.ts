// What of the installation the API's refusals depend on. Such a refusal may end without a change of the object, and its
// message names the chart's value that ends it. Pure.
import { type ApiProblem, isTaken, lacksField } from '../../client/api-problem.ts';

interface Remedy {
  isOf(problem: ApiProblem): boolean;
  /** A sentence that names the value; undefined where there is none, or where the API says all. */
  words?: string;
}

export const DESTINATION_REMEDY =
  "If this installation may send there, add it to the chart's value callbacks.allowedPrivateDestinations.";

const hasCode =
  (...codes: string[]) =>
  ({ code }: ApiProblem): boolean =>
    codes.includes(code);

const hasFault =
  (code: string) =>
  ({ fieldErrors }: ApiProblem): boolean =>
    fieldErrors.some((fault) => fault.code === code);

/** The first that fits counts. */
const REMEDIES: readonly Remedy[] = [
  { isOf: isDestinationRefused, words: DESTINATION_REMEDY },
  // DNS did not know the host.
  { isOf: hasCode('service.callback_destination_rejected') },
  {
    isOf: hasCode('service.plan_limit_reached'),
    words:
      "The chart's value plan states the plan of the installation, and its value plans what a plan allows.",
  },
  {
    isOf: hasCode('service.authentication_required'),
    words: "The chart's value auth.clusterIssuer states whose tokens the API trusts.",
  },
  { isOf: ({ limit }) => limit !== undefined },
  {
    isOf: hasCode('service.relay_not_configured'),
    words: "The chart's value relay.url names the messaging relay.",
  },
  {
    isOf: hasFault('unknown_notifier'),
    words: "The chart's value relay.notifiers lists the notifiers.",
  },
  { isOf: hasCode('service.service_suspended', 'service.permission_denied') },
  {
    isOf: lacksField,
    words: 'An api of an older version has answered: the operator tries again until the upgrade is done.',
  },
  // The person may connect.
  { isOf: hasFault('not_connected') },
  // The other endpoint may be removed through the API.
  { isOf: (problem) => isTaken(problem, 'alias') },
];

/** True if the API may accept the same later, because somebody changed the installation or what else is there. */
export function mayEndByItself(problem: ApiProblem): boolean {
  return REMEDIES.some(({ isOf }) => isOf(problem));
}

/** Undefined if no value of the chart would help. */
export function remedyOf(problem: ApiProblem): string | undefined {
  return REMEDIES.find(({ isOf }) => isOf(problem))?.words;
}

/** True if the installation does not send to the address of an endpoint or of an inline binding. */
function isDestinationRefused({ fieldErrors }: ApiProblem): boolean {
  const isAboutUrl = (path: string) => path === 'url' || path.endsWith('.url');
  return fieldErrors.some(
    // Plain http is allowed to allowed private destinations only.
    ({ code, path }) => isAboutUrl(path) && (code === 'address_not_allowed' || code === 'invalid_scheme'),
  );
}
