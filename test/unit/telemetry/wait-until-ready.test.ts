import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { findFreePort } from '../../../src/dev/processes/free-port.ts';
import { startHealthServer } from '../../../src/telemetry/health-server.ts';
import { createTelemetry } from '../../../src/telemetry/telemetry.ts';
import { runProgram } from '../../support/run-program.ts';

const SCRIPT = fileURLToPath(new URL('../../../src/telemetry/wait-until-ready.ts', import.meta.url));
const probe = (port: number, seconds: number) => {
  const env = { PATH: process.env.PATH, BEATKEEPER_HEALTH_PORT: String(port) };
  return runProgram(process.execPath, [SCRIPT, String(seconds)], { env });
};

it('the startup probe waits for a process that does not listen yet, and then for one that is not ready yet', async () => {
  const port = await findFreePort();
  const ending = probe(port, 300);
  const telemetry = createTelemetry({ role: 'test', logLevel: 'silent' });
  let asked = 0;
  telemetry.readiness.addCheck('thing', async () =>
    ++asked > 1 ? undefined : 'The thing is not there yet.',
  );
  const server = await startHealthServer({ host: '127.0.0.1', port }, telemetry);
  expect(await ending).toMatchObject({ code: 0, stderr: '' });
  expect(asked).toBeGreaterThan(1);
  await server.close();
});

it('the startup probe ends well for a process that lives and is not ready, because that is the other probe’s fault to tell', async () => {
  const telemetry = createTelemetry({ role: 'test', logLevel: 'silent' });
  telemetry.readiness.addCheck('thing', async () => 'The thing is away.');
  const server = await startHealthServer({ host: '127.0.0.1', port: 0 }, telemetry);
  expect(await probe(server.port, 1)).toMatchObject({ code: 0 });
  await server.close();
});

it('the startup probe fails for a process that does not answer', async () => {
  const { code, stderr } = await probe(await findFreePort(), 1);
  expect(code).toBe(1);
  expect(stderr).toMatch(/does not answer with 200\.\n$/);
});
