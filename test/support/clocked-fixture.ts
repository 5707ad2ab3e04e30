// A project on a database whose clock the test sets.
import { openProjectFixture, type ProjectFixture } from './database-fixture.ts';
import { openVirtualClock, type VirtualClock } from './virtual-clock.ts';

export interface ClockedFixture extends ProjectFixture {
  clock: VirtualClock;
}

export async function openClockedFixture(): Promise<ClockedFixture> {
  const fixture = await openProjectFixture();
  const clock = await openVirtualClock(fixture.databaseUrl);
  const close = async () => {
    await clock.close();
    await fixture.close();
  };
  return { ...fixture, clock, close };
}
