// Successes whose beats carry a number, enough of them for whatever needs a history.

/** Sends so many successes to a publish address. Their `rows` are 1,000, 1,001 and so on, in any order. */
export async function sendMeasured(address: string, count: number): Promise<void> {
  const send = async (rows: number) => {
    const answer = await fetch(address, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json' },
      body: JSON.stringify({ measurements: { rows } }),
    });
    if (!answer.ok) throw new Error(`The beat was refused: ${answer.status} ${await answer.text()}`);
  };
  await Promise.all(Array.from({ length: count }, (_, index) => send(1_000 + index)));
}
