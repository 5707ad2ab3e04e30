// The keys that encrypt secrets at rest: BEATKEEPER_ENCRYPTION_KEYS.
import { z } from 'zod';

const ENTRY = /^([A-Za-z0-9_.-]{1,32}):([A-Za-z0-9+/_-]{43}=?)$/;
const WORDS =
  'must be <keyId>:<base64 of 32 bytes>, several with commas; make one with: ' +
  'echo "k1:$(head -c 32 /dev/urandom | base64)"';

/** Text to keys: the first encrypts, all decrypt. */
export const encryptionKeys = z.string(`is missing. It ${WORDS}`).transform((value, context) => {
  const keys = value.split(',').map((entry) => {
    const [, id = '', encoded = ''] = ENTRY.exec(entry.trim()) ?? [];
    return { id, key: Buffer.from(encoded, 'base64') };
  });
  if (keys.some(({ id, key }) => id === '' || key.length !== 32)) {
    context.addIssue({ code: 'custom', message: WORDS });
    return z.NEVER;
  }
  if (new Set(keys.map(({ id }) => id)).size < keys.length) {
    context.addIssue({ code: 'custom', message: 'names a key id twice' });
    return z.NEVER;
  }
  return keys;
});
