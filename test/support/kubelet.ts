// Stands in for the kubelet of a node, which a control plane without nodes lacks: it forwards ports as kubelets do, to
// 127.0.0.1 of this machine, which is that of all of its pods. The API server and its checks are real.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:https';
import { connect } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { listen } from './listen.ts';

export interface Kubelet {
  port: number;
  /** Ports that were forwarded, one entry a connection. */
  forwarded: number[];
  /** While set, it says this in place of a connection, as where nobody listens in the pod. */
  refusal: string | undefined;
  close(): Promise<void>;
}

const certificate = (name: string) => new URL(`certificates/receiver-${name}.pem`, import.meta.url);

export async function startKubelet(): Promise<Kubelet> {
  const kubelet: Omit<Kubelet, 'port' | 'close'> = { forwarded: [], refusal: undefined };
  const server = createServer({
    cert: await readFile(certificate('certificate')),
    key: await readFile(certificate('key')),
  });
  const sockets = new WebSocketServer({
    server,
    handleProtocols: (offered) => (offered.has('v4.channel.k8s.io') ? 'v4.channel.k8s.io' : false),
  });
  sockets.on('connection', (websocket, request) => {
    const port = Number(new URL(request.url ?? '', 'https://kubelet').searchParams.get('port'));
    kubelet.forwarded.push(port);
    forward(websocket, port, kubelet.refusal);
  });
  const { port, close } = await listen(server);
  return Object.assign(kubelet, { port, close });
}

const DATA = 0;
const ERROR = 1;

/** Channel 0 has the data, channel 1 errors; the first message of each is the number of the port. */
function forward(websocket: WebSocket, port: number, refusal: string | undefined): void {
  const number = Buffer.from([port & 0xff, port >> 8]);
  for (const channel of [DATA, ERROR]) websocket.send(Buffer.concat([Buffer.from([channel]), number]));
  if (refusal !== undefined) {
    websocket.send(Buffer.concat([Buffer.from([ERROR]), Buffer.from(refusal)]));
    websocket.close();
    return;
  }
  const socket = connect(port, '127.0.0.1');
  socket.on('data', (data: Buffer) => websocket.send(Buffer.concat([Buffer.from([DATA]), data])));
  socket.on('error', () => undefined); // 'close' follows
  socket.on('close', () => websocket.close());
  websocket.on('message', (message: Buffer) => {
    if (message[0] === DATA) socket.write(message.subarray(1));
  });
  websocket.on('close', () => socket.destroy());
}
