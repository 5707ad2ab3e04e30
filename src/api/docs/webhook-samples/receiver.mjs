// SECRET=sigcb_v1_… node receiver.mjs: receives alerts on port 9123, and prints those whose signature is right.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const key = Buffer.from((process.env.SECRET ?? '').replace('sigcb_v1_', ''), 'base64url');

function isGenuine(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures = '' } = headers;
  const age = Math.abs(Date.now() / 1000 - Number(timestamp));
  if (Number.isNaN(age) || age > 300) return false;
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  // While a secret is rotated there are two signatures: one that fits is enough.
  return signatures.split(' ').some((signature) => {
    const given = Buffer.from(signature.replace('v1,', ''), 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (isGenuine(request.headers, body)) {
    const { type, data } = JSON.parse(body);
    console.log(`verified: ${type} ${data.incident?.summary ?? ''}`.trim());
    response.writeHead(204).end();
  } else {
    console.log('refused: the signature is wrong');
    response.writeHead(401).end();
  }
}).listen(Number(process.env.RECEIVER_PORT ?? 9123), '127.0.0.1', () => console.log('listening'));
