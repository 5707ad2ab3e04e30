// What is made ahead of its use (src/service/tenancy/read-ahead.ts).
import { expect, it } from 'vitest';
import { readAhead } from '../../../src/service/tenancy/read-ahead.ts';

/** Says what it has begun and whether it ended. */
function startSource(count: number, failsAt = Number.POSITIVE_INFINITY) {
  const seen = { begun: 0, isEnded: false };
  const source = async function* () {
    try {
      for (let place = 0; place < count; place += 1) {
        seen.begun += 1;
        if (place === failsAt) throw new Error('failed');
        yield place;
      }
    } finally {
      seen.isEnded = true;
    }
  };
  return { seen, things: readAhead(source()) };
}

const turn = () => new Promise(setImmediate);

it('one thing is made while the one before it is used, and no further one', async () => {
  const { seen, things } = startSource(5);
  for (const place of [0, 1, 2]) {
    expect((await things.next()).value).toBe(place);
    await turn();
    expect(seen.begun).toBe(place + 2);
  }
});

it('all things come in their order, and then an end', async () => {
  const { seen, things } = startSource(3);
  const made: number[] = [];
  for await (const thing of things) made.push(thing);
  expect(made).toEqual([0, 1, 2]);
  expect(seen.isEnded).toBe(true);
});

it('a failure comes after the things before it', async () => {
  const { things } = startSource(3, 2);
  expect([(await things.next()).value, (await things.next()).value]).toEqual([0, 1]);
  await turn();
  await expect(things.next()).rejects.toThrow('failed');
});

it('who stops early ends the source, also where what it makes ahead fails', async () => {
  const { seen, things } = startSource(3, 1);
  for await (const _thing of things) break;
  await turn();
  expect(seen.isEnded).toBe(true);
});
