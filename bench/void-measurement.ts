// What a measurement ends with that the machine spoilt: it stood still for longer than a caller waits, or others used it
// up. Its figures would say nothing, and nothing is wrong with the product.

export class VoidMeasurement extends Error {}
