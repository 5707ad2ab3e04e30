// For a process of a test (`node --import`): its clock jumps by the milliseconds in the file that JUMPING_CLOCK names, at each
// SIGUSR2. What is not the time of day goes on as ever.
import { readFileSync } from 'node:fs';

const RealDate = Date;
let aheadMs = 0;

const read = (): number => RealDate.now() + aheadMs;

globalThis.Date = new Proxy(RealDate, {
  construct: (target, given: unknown[], newTarget) =>
    Reflect.construct(target, given.length === 0 ? [read()] : given, newTarget),
  get: (target, name, receiver) => (name === 'now' ? read : Reflect.get(target, name, receiver)),
});

process.on('SIGUSR2', () => {
  aheadMs = Number(readFileSync(process.env.JUMPING_CLOCK ?? '', 'utf8'));
});
