// The parts of `kubectl beat` that need no cluster: tables, durations, options, kubeconfigs, releases.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { withApi } from '../../../src/dev/control-plane/kubeconfig-api.ts';
import { readDurationSeconds } from '../../../src/kubectl/duration.ts';
import { loadContext } from '../../../src/kubectl/kubeconfig.ts';
import { ALL_NAMESPACES, COMMON_OPTIONS, readArguments } from '../../../src/kubectl/option.ts';
import { findRelease } from '../../../src/kubectl/release.ts';
import { writeSignInFile } from '../../../src/kubectl/sign-in-file.ts';
import { formatDuration, formatJson, formatTable, printable } from '../../../src/kubectl/table.ts';
import { waitFor } from '../../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'kubectl-beat-'));
afterAll(() => rmSync(folder, { recursive: true }));

describe('text for terminals', () => {
  it('columns are aligned, and a cell is one line', () => {
    expect(
      formatTable([
        ['A', 'LONGER', 'C'],
        ['value', 'b', 'two\n lines'],
        ['', '', ''],
      ]),
    ).toBe('A       LONGER   C\nvalue   b        two lines\n');
  });

  it('control characters of strangers do not reach the terminal, line breaks do', () => {
    expect(printable('a\u001b[31mb\u0007\u009b1m\u202e\nc\td')).toBe(
      'a\ufffd[31mb\ufffd\ufffd1m\ufffd\nc\td',
    );
  });

  it('JSON loses nothing of them, and has none of them', () => {
    const value = { text: 'a\u001b\u009b\u202e' };
    const json = formatJson(value);
    expect(json).toMatch(/^[\n\u0020-\u007e]+$/);
    expect(JSON.parse(json)).toEqual(value);
  });

  it.each([
    [0, '0s'],
    [59, '59s'],
    [61, '1m'],
    [3_600, '1h'],
    [12_000, '3h20m'],
    [90_000, '1d1h'],
    [-5, '0s'],
  ])('%d seconds are %s', (seconds, text) => {
    expect(formatDuration(seconds)).toBe(text);
  });
});

describe('a duration', () => {
  it.each([
    ['90s', 90],
    ['30m', 1_800],
    ['1h30m', 5_400],
    ['1d', 86_400],
    ['1w', 604_800],
  ])('%s is %d seconds', (text, seconds) => {
    expect(readDurationSeconds('for', text)).toBe(seconds);
  });

  it.each(['', '2', 'h', '2 h', '-2h', '0m', '2h!', '1.5h'])('%j is refused', (text) => {
    expect(() => readDurationSeconds('for', text)).toThrow('is no duration: state one such as 30m');
  });
});

describe('arguments', () => {
  const options = [...COMMON_OPTIONS, ALL_NAMESPACES];

  it.each([
    [['-n', 'a', '-o', 'json']],
    [['-na', '-ojson']],
    [['-n=a', '-o=json']],
    [['--namespace=a', '--output', 'json']],
  ])('they are taken as kubectl takes them: %j', (args) => {
    expect(readArguments('status', options, args).values).toEqual({ namespace: 'a', output: 'json' });
  });

  it('operands and options may be in any order', () => {
    const { operands, values } = readArguments('explain', options, ['worker', '-A']);
    expect({ operands, values }).toEqual({ operands: ['worker'], values: { 'all-namespaces': true } });
  });

  it.each([[['--wrong']], [['-n']], [['-A=yes']]])('%j is refused in one sentence', (args) => {
    expect(() => readArguments('status', options, args)).toThrow(
      /^[^\n]+: `kubectl beat status --help` lists the options\.$/,
    );
  });
});

describe('the kubeconfig', () => {
  function write(name: string, contexts: Record<string, object>, current?: string): string {
    const file = join(folder, name);
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      ...(current === undefined ? {} : { 'current-context': current }),
      clusters: [{ name: 'c', cluster: { server: `https://${name}.example` } }],
      users: [{ name: 'u', user: { token: `secret-of-${name}` } }],
      contexts: Object.entries(contexts).map(([context, more]) => ({
        name: context,
        context: { cluster: 'c', user: 'u', ...more },
      })),
    };
    writeFileSync(file, stringify(config));
    return file;
  }
  const api = { url: 'http://127.0.0.1:8080', release: 'system/beatkeeper' };
  const extensions = [
    { name: 'other', extension: {} },
    { name: 'beatkeeper.dev/api', extension: api },
  ];

  it('the chosen context says the namespace and where the API is', () => {
    const file = write('one', { a: { namespace: 'payments', extensions }, b: {} }, 'a');
    expect(loadContext({ file })).toMatchObject({ namespace: 'payments', api });
    expect(loadContext({ file, context: 'b' })).toMatchObject({ namespace: 'default', api: {} });
  });

  it('of several files in KUBECONFIG the first one that states a name counts, and a missing one does not', () => {
    const first = write('first', { a: { namespace: 'of-first' } });
    const second = write('second', { a: { namespace: 'of-second' }, b: { namespace: 'b' } }, 'b');
    const env = { KUBECONFIG: [join(folder, 'none'), first, second].join(':') };
    expect(loadContext({}, env).namespace).toBe('b');
    const chosen = loadContext({ context: 'a' }, env);
    expect(chosen.namespace).toBe('of-first');
    expect(chosen.config.getCurrentCluster()?.server).toBe('https://first.example');
  });

  it('a context that is not there, and none at all, is refused with those that are', () => {
    const file = write('some', { a: {}, b: {} });
    expect(() => loadContext({ file, context: 'c' })).toThrow(
      'The kubeconfig has no context c: it has a, b.',
    );
    expect(() => loadContext({ file })).toThrow('name one with --context (it has a, b)');
  });

  it('a file that is not there or is no YAML is refused, without what is in it', () => {
    expect(() => loadContext({ file: join(folder, 'none') })).toThrow('correct --kubeconfig');
    expect(() => loadContext({}, { KUBECONFIG: join(folder, 'none') })).toThrow('correct KUBECONFIG');
    const broken = join(folder, 'broken');
    writeFileSync(broken, 'users: [{name: u, user: {token: very-secret}\nclusters: 3: 4');
    expect(() => loadContext({ file: broken })).toThrow(/cannot be read: (?!.*very-secret)[^\n]*$/);
  });

  it('an extension without an http address is refused', () => {
    const wrong = [{ name: 'beatkeeper.dev/api', extension: { url: 'ftp://x' } }];
    const file = write('wrong', { a: { extensions: wrong } }, 'a');
    expect(() => loadContext({ file })).toThrow('has no http address as url: correct it');
  });

  it('that of npm run dev has the extension once, keeps other ones, and its paths do not depend on its folder', () => {
    const text = stringify({
      'current-context': 'a',
      clusters: [{ name: 'c', cluster: { server: 'https://c', 'certificate-authority': 'ca.crt' } }],
      users: [{ name: 'u', user: { 'client-key': '/abs/key', exec: { command: './login' } } }],
      contexts: [{ name: 'a', context: { cluster: 'c', user: 'u', extensions: [extensions[0]] } }],
    });
    const once = withApi(text, '/folder', api);
    const twice = withApi(once, '/elsewhere', { ...api, url: 'http://127.0.0.1:9' });
    expect(once).toContain('certificate-authority: /folder/ca.crt');
    expect(once).toContain('client-key: /abs/key');
    expect(once).toContain('command: /folder/login');
    const file = join(folder, 'dev');
    writeFileSync(file, twice);
    expect(loadContext({ file }).api).toEqual({ ...api, url: 'http://127.0.0.1:9' });
    expect(twice.match(/beatkeeper\.dev\/api/g)).toHaveLength(1);
    expect(twice).toContain('name: other');
  });
});

describe('the release', () => {
  const object = { metadata: { name: 'a', annotations: { 'beatkeeper.dev/managed-by': 'b/annotated' } } };

  it('the option wins over the context, and the context over the annotation', () => {
    const context = { release: 'b/of-context' };
    expect(findRelease('b/stated', context, [object])).toEqual({ namespace: 'b', name: 'stated' });
    expect(findRelease(undefined, context, [object]).name).toBe('of-context');
    expect(findRelease(undefined, {}, [{ metadata: { name: 'b' } }, object]).name).toBe('annotated');
  });

  it.each(['beatkeeper', 'a/b/c', '/b', 'a/', '../a/b', 'A/b'])('%s is no release', (stated) => {
    expect(() => findRelease(stated, {}, [])).toThrow('is no release: state --release <namespace>/<name>');
  });

  it('where nothing names one, the refusal says how to', () => {
    expect(() => findRelease(undefined, {}, [])).toThrow('state it with --release');
  });
});

describe('the file that signs in', () => {
  it('is gone after its time', async () => {
    const file = await writeSignInFile('http://a.example/sign-in#token=x', { folder, keptMs: 1 });
    await waitFor(() => !existsSync(dirname(file.path)), { what: 'it is gone' });
    await file.remove();
  });
});
