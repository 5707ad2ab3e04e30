// The words of access (docs/contract/tenancy.md): roles of sessions and presets of credentials.

/** In rising order: where a session has several, the last one counts. */
export const ROLES = ['viewer', 'member', 'owner', 'operator'] as const;
export type Role = (typeof ROLES)[number];

export const CREDENTIAL_PRESETS = ['read', 'manage'] as const;
export type CredentialPreset = (typeof CREDENTIAL_PRESETS)[number];
