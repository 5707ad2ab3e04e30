// The certificate that `api` serves, from a folder in which Kubernetes mounts a TLS Secret. A renewed one is taken while
// the server runs: its files are compared once in a while, because a mounted Secret announces no change.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createSecureContext, type SecureContextOptions, type Server } from 'node:tls';
import type { Telemetry } from '../../telemetry/telemetry.ts';

const PERIOD_MS = 60_000;

export class ServedCertificate {
  readonly #folder: string;
  #options: SecureContextOptions;
  #timer: NodeJS.Timeout | undefined;

  private constructor(folder: string, options: SecureContextOptions) {
    this.#folder = folder;
    this.#options = options;
  }

  /** Reads `tls.crt` and `tls.key`. Throws if one is missing, or if they do not fit together. */
  static async read(folder: string): Promise<ServedCertificate> {
    try {
      return new ServedCertificate(folder, await readUsable(folder));
    } catch (cause) {
      throw new Error(`${folder} has no certificate that can be served: ${(cause as Error).message}`, {
        cause,
      });
    }
  }

  /** For `makeServer`. */
  get options(): SecureContextOptions {
    return this.#options;
  }

  /** New connections get the newest certificate. One that cannot be used leaves the last one in use. */
  keepFresh(server: Server, log: Telemetry['log'], periodMs: number = PERIOD_MS): void {
    this.#timer = setInterval(() => void this.#renew(server, log), periodMs).unref();
  }

  /** Call it before the server closes. */
  stop(): void {
    clearInterval(this.#timer);
  }

  async #renew(server: Server, log: Telemetry['log']): Promise<void> {
    try {
      const options = await readUsable(this.#folder);
      if (isSame(options, this.#options)) return;
      server.setSecureContext(options);
      this.#options = options;
      log.info('The renewed certificate is in use.');
    } catch (err) {
      log.warn({ err }, 'The renewed certificate cannot be used: the last one stays in use.');
    }
  }
}

/** The files may be in the midst of a replacement: then they do not fit together, and the next look finds them whole. */
async function readUsable(folder: string): Promise<SecureContextOptions> {
  const [cert, key] = await Promise.all(['tls.crt', 'tls.key'].map((name) => readFile(join(folder, name))));
  const options: SecureContextOptions = { cert, key, minVersion: 'TLSv1.2' };
  createSecureContext(options);
  return options;
}

function isSame(one: SecureContextOptions, other: SecureContextOptions): boolean {
  return String(one.cert) === String(other.cert) && String(one.key) === String(other.key);
}
