// Runs the conformance suite of the Model Context Protocol: its servers listen on loopback only, and it needs no Node.js 22.
import { register } from 'node:module'
import net from 'node:net'

// The suite asks for the port at once, which listen does not allow with an address.
const listen = net.Server.prototype._listen2
net.Server.prototype._listen2 = function (address, port, family, ...rest) {
  return address ? listen.call(this, address, port, family, ...rest) : listen.call(this, '127.0.0.1', port, 4, ...rest)
}

// The suite imports fs.globSync for another command. And its API has a nonce with a word that its tokens have too, which the host takes
// for an echo of a credential (threats.md 344): here the nonce has another word.
const fs = "export * from 'node:fs'; export { default } from 'node:fs'; export const globSync = () => []"
const hooks = `export const resolve = (name, context, next) => name === 'fs'
  ? { url: 'data:text/javascript,' + ${JSON.stringify(encodeURIComponent(fs))}, shortCircuit: true } : next(name, context)
export const load = async (url, context, next) => {
  const loaded = await next(url, context)
  return url.endsWith('/conformance/dist/index.js')
    ? { ...loaded, source: String(loaded.source).replaceAll('conformance-rs-dpop-nonce', 'a-nonce-of-the-api') } : loaded
}`
register('data:text/javascript,' + encodeURIComponent(hooks))
await import('./node_modules/@modelcontextprotocol/conformance/dist/index.js')
