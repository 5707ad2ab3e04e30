// The address of the relay, as it is checked at the start of `api` and `sweeper`.
import { describe, expect, it } from 'vitest';
import { openContext } from '../../../src/service/calls/open-context.ts';
import { makeConfig } from '../../support/make-config.ts';

const open = (relayUrl: string) =>
  openContext(makeConfig('postgres://nobody@127.0.0.1:1/none', { relayUrl }), 'test');

describe('the address of the relay', () => {
  it.each([
    'https://push.example.com',
    'http://ntfy.push.svc:8080/relay',
    'http://10.1.2.3',
    'http://[fd12::1]',
  ])('%s is taken', (url) => {
    expect(open(url).relay?.url).toBe(url);
  });

  it.each([
    ['ftp://push.example.com', 'Use an https URL.'],
    ['https://ada:hunter2@push.example.com', 'Remove the user name and password.'],
    ['https://push.example.com:0', 'Use a port from 1 to 65535.'],
    ['https://push.example.com/a b', 'Remove spaces and control characters.'],
    [`https://push.example.com/${'a'.repeat(512)}`, 'Use at most 512 characters.'],
    ['https://push.example.com/?a=b', 'Remove the query (the part after ?).'],
    ['http://169.254.169.254', 'It is an address of cloud metadata, to which nothing is sent.'],
    ['http://[fd00:ec2::254]', 'It is an address of cloud metadata, to which nothing is sent.'],
  ])('%s ends the start with a sentence', (url, sentence) => {
    expect(() => open(url)).toThrow(new Error(`RELAY_URL cannot be used. ${sentence}`));
  });
});
