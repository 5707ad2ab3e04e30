import { Writable } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { createLog } from '../../../src/telemetry/log.ts';

const UUID = '0b0f3a52-7d0c-4b0e-9c5a-6f1b8f6a2d11';
const TOPIC = `bk_${'tQ9n8vXe4t-oKd5a_f0Y'.repeat(2)}`;
const CREDENTIAL_SECRET = 'q7Jr0cRIhJq3yWb1ZrPp6m2sQ9n8vXe4tUoKd5aLf0Y';

function logged(write: (log: ReturnType<typeof createLog>) => void): string {
  let text = '';
  const sink = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk);
      done();
    },
  });
  write(createLog({ role: 'test', level: 'trace' }, sink));
  return text;
}

describe('the log', () => {
  test.each([
    ['a publish address', { url: `/ping/${UUID}/fail?rid=1` }, UUID],
    ['an encoded publish address', { url: '/ping/%30b0f3a52' }, '%30b0f3a52'],
    [
      'an authorization header at any depth',
      { a: { b: { headers: { Authorization: 'Digest abc"def' } } } },
      'Digest',
    ],
    ['a bearer token in a text', { note: 'sent Bearer abc.def' }, 'abc.def'],
    [
      'a topic of the relay',
      { err: new Error(`no answer from https://push.example.com/${TOPIC}`) },
      TOPIC.slice(3),
    ],
    ['a credential', { c: `bkc_${'a'.repeat(32)}_${CREDENTIAL_SECRET}` }, CREDENTIAL_SECRET],
    ['a signing secret', { s: `sigcb_v1_${CREDENTIAL_SECRET}` }, CREDENTIAL_SECRET],
    ['a session token', { t: 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln' }, 'eyJzdWIiOiJhIn0'],
    ['a password in an address', { err: new Error('connect postgres://u:hunter2@h/d failed') }, 'hunter2'],
  ])('the log hides %s', (_what, fields, secret) => {
    const line = logged((log) => log.info(fields, 'message'));
    expect(line).not.toContain(secret);
    expect(line).toContain('redacted');
    expect(JSON.parse(line)).toMatchObject({ level: 'info', role: 'test', msg: 'message' });
  });

  test('the log hides secrets in the message too', () => {
    expect(logged((log) => log.warn(`beat at http://h/ping/${UUID}`))).not.toContain(UUID);
  });

  test('the log leaves other text unchanged', () => {
    const url = 'http://127.0.0.1:8080/v1/monitors?limit=5';
    expect(JSON.parse(logged((log) => log.info({ url }, 'hello')))).toMatchObject({ url, msg: 'hello' });
  });
});
