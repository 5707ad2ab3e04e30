// Whether the API takes the operator's token, by the answers to the status feed, which leader and standby read alike. No
// answer says nothing: an API that is away for a while changes nothing here.
import { readFile } from 'node:fs/promises';
import { type ApiProblem, isProblem } from '../../client/api-problem.ts';

type State = 'unknown' | 'accepted' | 'refused';

export class SignIn {
  #state: State = 'unknown';
  #words = '';

  accept(): void {
    this.#state = 'accepted';
  }

  /** A 401, or a 403 that denies the role, refuses the token; every other failure is about something else. */
  fail(error: unknown): void {
    const isRefused = isProblem(error) && (error.status === 401 || isDenied(error));
    if (isRefused) this.#state = 'refused';
    if (isRefused || this.#state === 'unknown')
      this.#words = error instanceof Error ? error.message : String(error);
  }

  /** A sentence for people, with what the token says of itself; undefined if the API takes it. Never rejects. */
  async findFault(tokenFile: string): Promise<string | undefined> {
    if (this.#state === 'accepted') return undefined;
    if (this.#state === 'unknown')
      return `The API has not accepted the operator's token yet. Its last answer: ${this.#words || 'none'}`;
    return `The API refuses the operator's token. ${await describeToken(tokenFile)} The API's answer: ${this.#words}`;
  }
}

function isDenied({ status, code }: ApiProblem): boolean {
  return status === 403 && code === 'service.permission_denied';
}

/** Only who signed it, for whom and of whom: none of it is a secret. */
async function describeToken(file: string): Promise<string> {
  try {
    const [, payload = ''] = (await readFile(file, 'utf8')).split('.');
    const { iss, aud, sub } = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'));
    return `It is of ${sub}, by the issuer ${iss}, for the audience ${[aud].flat().join(', ')}: compare it with BEATKEEPER_ISSUERS of the role api (auth.clusterIssuer of the chart).`;
  } catch {
    return 'It cannot be read as a token.';
  }
}
