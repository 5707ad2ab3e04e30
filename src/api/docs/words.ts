// The words of the reference that it does not explain where they stand.
import { type Html, heading, html, table } from './html.ts';

export function theWords(): Html {
  return html`${heading(2, 'Words')}
${table(
  ['Word', 'Means'],
  [
    [
      'organization',
      'Who has a plan, projects and one default endpoint. Nothing is shared between organizations.',
    ],
    [
      'project',
      'A room of an organization: it has monitors, endpoints and credentials of its own. In a Kubernetes cluster a namespace is a project.',
    ],
    [
      'session',
      'Somebody who has signed in with a token of an issuer that the installation trusts: a `viewer`, a `member` or an `owner`.',
    ],
    ['credential', 'A token of one project, for programs. Owners make them.'],
    [
      'preset',
      'What a credential may do (`read` or `manage`), and the least that an operation asks for. A viewer may do what `read` may, a member and an owner what `manage` may.',
    ],
    [
      'scope',
      'A right of a credential beside its preset. There is one, `usage:read`: the records of usage in an export.',
    ],
    [
      'operator',
      'The part of Beatkeeper in a Kubernetes cluster that keeps the API the same as the objects `Monitor` and `Callback`. It signs in with a role of its own.',
    ],
    [
      'jurisdiction',
      'Where the data of a monitor belongs: `unrestricted`, `eu`, `us` or `fedramp`. It belongs to the identity of a monitor, so that each may have one of the same id. In this version it is a label: one database has them all.',
    ],
    ['binding', 'Where the alerts of a monitor go.'],
    ['grace', 'How much later than expected a beat may come.'],
    ['run', 'The time from a `start` to the `success` or `fail` that ends it.'],
    ['durable', 'On disk: a crash right after the answer loses nothing of it.'],
    [
      'late',
      'Of a monitor: the beat is overdue, and the deadline has not passed. Of an observation: it came after the deadline.',
    ],
    [
      'mode',
      'Of a measurement: always `heartbeat`. Of its `ruleAction`: `active` rules open incidents, `inactive` ones only record violations.',
    ],
  ],
)}`;
}
