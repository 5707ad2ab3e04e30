// What a call names is looked for in all databases at once: the answer comes as soon as it is certain.
import { expect, it } from 'vitest';
import {
  findFirstHome,
  findOnlyHome,
  type Homes,
  type SharedHome,
} from '../../../src/service/calls/homes.ts';
import { openDatabases } from '../../../src/store/postgres/databases.ts';

// Nothing connects to them.
const databaseUrl = 'postgres://127.0.0.1:1/none';
const { homes: opened } = openDatabases({ databaseUrl, size: 1, applicationName: 'test' }, [
  { jurisdiction: 'eu', databaseUrl },
  { jurisdiction: 'us', databaseUrl },
]);
const [main, eu, us] = opened.map((home): SharedHome => ({ ...home, db: home.pool }));
if (!main || !eu || !us) throw new Error('no homes');
const homes: Homes = [main, eu, us];

/** What each database answers; one without an answer has not answered yet. */
function answers<Answer>(given: Map<SharedHome, Answer>) {
  const never = new Promise<Answer>(() => undefined);
  return (db: unknown) => {
    const home = homes.find((one) => one.db === db);
    return home && given.has(home) ? Promise.resolve(given.get(home) as Answer) : never;
  };
}

it('an id that is in one database is found there, whatever the others do', async () => {
  expect(await findFirstHome(homes, answers(new Map([[eu, true]])))).toBe(eu);
});

it('an id that may be in two databases is a conflict as soon as two have it', async () => {
  const two = new Map([
    [main, true],
    [us, true],
  ]);
  await expect(findOnlyHome(homes, answers(two))).rejects.toThrow('more than one jurisdiction');
});

it('an id that may be in two databases is found once all have answered', async () => {
  const all = new Map([
    [main, false],
    [eu, true],
    [us, false],
  ]);
  expect(await findOnlyHome(homes, answers(all))).toBe(eu);
});

it('a look that fails after the answer is certain does no harm', async () => {
  const late = Promise.withResolvers<boolean>();
  const look = (db: unknown) => (db === main.db ? late.promise : Promise.resolve(db === eu.db));
  expect(await findFirstHome(homes, look)).toBe(eu);
  late.reject(new Error('a fault of the statement'));
  await new Promise((resolve) => setImmediate(resolve));
});
