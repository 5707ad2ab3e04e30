// What a development run keeps between starts: ports, keys, passwords, ids and credentials, in one file.
import { randomBytes } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { findFreePort, isPortFree } from './processes/free-port.ts';

const stateSchema = z.object({
  version: z.literal(1),
  ports: z.record(z.string(), z.int()),
  /** The password of the superuser in the run's own Postgres. */
  adminPassword: z.string(),
  /** The password of the product's own role there. */
  databasePassword: z.string(),
  encryptionKeys: z.string(),
  /** Private key of the development issuer, a JWK. */
  issuerKey: z.record(z.string(), z.unknown()).optional(),
  /** Its name, which its tokens bear: the address of its first run. */
  issuer: z.string().optional(),
  credential: z.string().optional(),
  readCredential: z.string().optional(),
});

export type StateValues = z.infer<typeof stateSchema>;

export class State {
  readonly folder: string;
  readonly values: StateValues;
  readonly #taken = new Set<number>();

  private constructor(folder: string, values: StateValues) {
    this.folder = folder;
    this.values = values;
  }

  /** Opens the state in `folder`, or begins a new one. Throws an Error with advice if the file is broken. */
  static async open(folder: string): Promise<State> {
    const file = join(folder, 'state.json');
    const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined;
      throw error;
    });
    if (text === undefined) return new State(folder, newValues());
    try {
      return new State(folder, stateSchema.parse(JSON.parse(text)));
    } catch (cause) {
      throw new Error(`The state file ${file} is broken: remove ${folder} to start again without its data.`, {
        cause,
      });
    }
  }

  /** The path of a part's files in the state folder. */
  path(...names: string[]): string {
    return join(this.folder, ...names);
  }

  /** A port on loopback for `name`: the one of the previous run, if that is free. */
  async port(name: string): Promise<number> {
    const before = this.values.ports[name];
    const keeps = before !== undefined && !this.#taken.has(before) && (await isPortFree(before));
    const others = new Set([...this.#taken, ...Object.values(this.values.ports)]);
    const port = keeps ? before : await findFreePort(others);
    this.#taken.add(port);
    this.values.ports[name] = port;
    return port;
  }

  /** Excludes a port, which the user chose, from those that `port` gives out. */
  reservePort(port: number): void {
    this.#taken.add(port);
  }

  /** Writes the file completely or not at all: a run may be killed at any moment. */
  async save(): Promise<void> {
    const file = this.path('state.json');
    await writeFile(`${file}.new`, `${JSON.stringify(this.values, undefined, 2)}\n`, { mode: 0o600 });
    await rename(`${file}.new`, file);
  }
}

function newValues(): StateValues {
  const password = () => randomBytes(18).toString('base64url');
  return {
    version: 1,
    ports: {},
    adminPassword: password(),
    databasePassword: password(),
    encryptionKeys: `dev:${randomBytes(32).toString('base64')}`,
  };
}
