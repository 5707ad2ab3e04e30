import { expect, it } from 'vitest';
import { AnswerReader } from '../../../bench/answer-reader.ts';

it('an answer is complete with the last byte of its body', () => {
  const reader = new AnswerReader();
  expect(reader.add('HTTP/1.1 503 Service Unavailable\r\nContent-Le')).toBe(undefined);
  expect(reader.add('ngth: 4\r\n\r\nno')).toBe(undefined);
  expect(reader.add('w.')).toEqual({ status: 503, isLast: false });
  expect(reader.add('HTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: close\r\n\r\n')).toEqual({
    status: 200,
    isLast: true,
  });
});

it('an answer in chunks is an error, for its end would be missed', () => {
  const reader = new AnswerReader();
  const add = () => reader.add('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n');
  expect(add).toThrow('chunked');
});
