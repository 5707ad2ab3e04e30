// A folder with a certificate for 127.0.0.1 and localhost, as Kubernetes mounts a TLS Secret.
import { copyFile, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

type Name = 'api' | 'renewed-api';

const pathOf = (name: string) => fileURLToPath(new URL(`certificates/${name}.pem`, import.meta.url));

/** The authority that has signed the certificates, and one that has not. */
export const AUTHORITY_FILE = pathOf('api-authority');
export const FOREIGN_AUTHORITY_FILE = pathOf('receiver-certificate');

export interface ServedFolder {
  path: string;
  /** Puts another certificate there, with the key of the same name or another one. */
  put(certificate: Name, key?: Name): Promise<void>;
  remove(): Promise<void>;
}

export async function makeServedFolder(): Promise<ServedFolder> {
  const path = await mkdtemp(join(tmpdir(), 'beatkeeper-tls-'));
  const folder: ServedFolder = {
    path,
    async put(certificate, key = certificate) {
      await place(pathOf(`${certificate}-certificate`), join(path, 'tls.crt'));
      await place(pathOf(`${key}-key`), join(path, 'tls.key'));
    },
    remove: () => rm(path, { recursive: true, force: true }),
  };
  await folder.put('api');
  return folder;
}

/** In one step, as the kubelet does it. */
export async function place(from: string, to: string): Promise<void> {
  await copyFile(from, `${to}.new`);
  await rename(`${to}.new`, to);
}
