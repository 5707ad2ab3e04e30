// A small authoritative DNS server on loopback (UDP; A and AAAA) whose answers a test chooses per query.
import { createSocket, type RemoteInfo, type Socket } from 'node:dgram';
import type { AddressInfo } from 'node:net';
import ipaddr from 'ipaddr.js';

/** `answer` gets a name in lower case and returns its addresses, or how the server fails to give any. */
export type DnsAnswer = string[] | 'nxdomain' | 'servfail' | 'silence';
export type DnsZone = (name: string, family: 4 | 6) => DnsAnswer;

export interface DnsServer {
  /** For `Resolver.setServers`. */
  address: string;
  /** Names asked so far, with the family: `rebind.test/4`. */
  queries: string[];
  close(): Promise<void>;
}

const TYPE_A = 1;
const TYPE_AAAA = 28;
const HEADER_BYTES = 12;

export async function startDnsServer(zone: DnsZone): Promise<DnsServer> {
  const socket = createSocket('udp4');
  const queries: string[] = [];
  socket.on('message', (packet, peer) => {
    const question = readQuestion(packet);
    queries.push(`${question.name}/${question.type === TYPE_A ? 4 : 6}`);
    const answer = isAddressType(question.type) ? zone(question.name, question.type === TYPE_A ? 4 : 6) : [];
    if (answer !== 'silence') send(socket, peer, buildResponse(packet, question, answer));
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  const { port } = socket.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    queries,
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  };
}

interface Question {
  name: string;
  type: number;
  end: number;
}

function isAddressType(type: number): boolean {
  return type === TYPE_A || type === TYPE_AAAA;
}

function readQuestion(packet: Buffer): Question {
  const labels: string[] = [];
  let offset = HEADER_BYTES;
  for (let length = packet.readUInt8(offset); length > 0; length = packet.readUInt8(offset)) {
    labels.push(packet.toString('latin1', offset + 1, offset + 1 + length));
    offset += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: packet.readUInt16BE(offset + 1), end: offset + 5 };
}

function buildResponse(packet: Buffer, question: Question, answer: DnsAnswer): Buffer {
  const addresses = Array.isArray(answer) ? answer : [];
  const header = Buffer.from(packet.subarray(0, HEADER_BYTES));
  const code = answer === 'nxdomain' ? 3 : answer === 'servfail' ? 2 : 0;
  header.writeUInt16BE(0x8580 | code, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(addresses.length, 6);
  header.writeUInt32BE(0, 8);
  const records = addresses.map((address) => addressRecord(address, question.type));
  return Buffer.concat([header, packet.subarray(HEADER_BYTES, question.end), ...records]);
}

function addressRecord(address: string, type: number): Buffer {
  const bytes = Buffer.from(ipaddr.parse(address).toByteArray());
  const record = Buffer.alloc(12);
  record.writeUInt16BE(0xc000 | HEADER_BYTES, 0); // the name of the question
  record.writeUInt16BE(type, 2);
  record.writeUInt16BE(1, 4);
  record.writeUInt32BE(0, 6); // never cached
  record.writeUInt16BE(bytes.length, 10);
  return Buffer.concat([record, bytes]);
}

function send(socket: Socket, peer: RemoteInfo, response: Buffer): void {
  socket.send(response, peer.port, peer.address);
}
