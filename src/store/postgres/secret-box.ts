// Encryption at rest (signing secrets, callback addresses, relay topics, stored answers): AES-256-GCM, the value's place as associated
// data, so that a box does not open in another row or column. The box has the id of its key, so that keys can rotate.
import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject, randomBytes } from 'node:crypto';

const FORMAT = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface EncryptionKey {
  id: string;
  /** 32 bytes. */
  key: Buffer;
}

/** What a sealed value is. */
export type Purpose = 'url' | 'relay-topic' | 'signing-secret' | 'answer';

/**
 * The associated data of a box. No two places have the same text: `scopeId` (a project, an organization or a relay
 * topic) and `purpose` contain no slash.
 */
export function placeOf(scopeId: string, rowId: string, purpose: Purpose): string {
  return `${scopeId}/${rowId}/${purpose}`;
}

/** Seals and opens texts. The first key seals; every key opens. Layout: format, id length, id, nonce, tag, text. */
export class SecretBox {
  /** As key objects: with the bytes themselves Node takes four times as long. */
  readonly #keys: Map<string, KeyObject>;
  /** Of the configured keys. The first one seals. */
  readonly keyIds: readonly string[];
  readonly #current: { id: string; key: KeyObject };

  constructor(keys: readonly EncryptionKey[]) {
    for (const { id, key } of keys) {
      if (key.length !== 32)
        throw new RangeError(`The encryption key ${id} has ${key.length} bytes, not 32.`);
    }
    const objects = keys.map(({ id, key }) => ({ id, key: createSecretKey(key) }));
    const [current] = objects;
    if (!current) throw new RangeError('At least one encryption key is needed.');
    this.#current = current;
    this.#keys = new Map(objects.map(({ id, key }) => [id, key]));
    this.keyIds = [...this.#keys.keys()];
  }

  seal(text: string, associated: string): Buffer {
    const id = Buffer.from(this.#current.id, 'utf8');
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#current.key, nonce);
    cipher.setAAD(Buffer.from(associated, 'utf8'));
    const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
    return Buffer.concat([Buffer.from([FORMAT, id.length]), id, nonce, cipher.getAuthTag(), body]);
  }

  /** Throws when the key is not configured, or the box was changed or belongs to another place. */
  open(box: Buffer, associated: string): string {
    const idLength = box[1] ?? 0;
    const id = box.toString('utf8', 2, 2 + idLength);
    if (box[0] !== FORMAT) throw new Error('A sealed value has an unknown format.');
    const key = this.#keys.get(id);
    if (!key)
      throw new Error(`The encryption key ${id} is not configured: add it to BEATKEEPER_ENCRYPTION_KEYS.`);
    const nonceEnd = 2 + idLength + NONCE_BYTES;
    const tagEnd = nonceEnd + TAG_BYTES;
    const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(2 + idLength, nonceEnd));
    decipher.setAAD(Buffer.from(associated, 'utf8'));
    decipher.setAuthTag(box.subarray(nonceEnd, tagEnd));
    return decipher.update(box.subarray(tagEnd), undefined, 'utf8') + decipher.final('utf8');
  }
}
