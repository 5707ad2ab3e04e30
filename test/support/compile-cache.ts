// Where Node keeps what it has compiled of the product, for processes that get an environment of their own: loading takes
// most of their time (vitest.config.ts).
const { NODE_COMPILE_CACHE: folder } = process.env;

export const compileCache: { NODE_COMPILE_CACHE?: string } = folder ? { NODE_COMPILE_CACHE: folder } : {};
