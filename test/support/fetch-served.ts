// Calls to a product that runs in processes of its own, on a machine that may be too busy to serve them.
import { waitFor } from './wait-for.ts';

/** Repeats a call that is answered with 503, as every client does: an api on a busy machine sheds load. */
export async function fetchServed(url: string, init?: RequestInit): Promise<Response> {
  const served = async () => {
    const answer = await fetch(url, init);
    if (answer.status !== 503) return answer;
    throw new Error(await answer.text());
  };
  return await waitFor(served, { what: `${url} is served` });
}
