package hosttest

import (
	"sync"

	"github.com/keywright/keywright/internal/contract"
)

// gate is a contract.Env between a native plugin and its host. When it is closed, the next call of a host function ends the
// plugin.
type gate struct {
	env contract.Env

	// mu is held while a host function runs.
	mu     sync.Mutex
	closed bool
}

var _ contract.Env = (*gate)(nil)

// tooLate is the value of the panic in a host function after the gate was closed.
type tooLate struct{}

// close closes the gate. It waits for the host function that is running.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// enter locks the gate and returns the function that unlocks it. It panics if the gate is closed.
func (g *gate) enter() func() {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		panic(tooLate{})
	}
	return g.mu.Unlock
}

func (g *gate) Input() []byte {
	defer g.enter()()
	return g.env.Input()
}

func (g *gate) ConfigGet(name string) (string, bool) {
	defer g.enter()()
	return g.env.ConfigGet(name)
}

func (g *gate) Log(level contract.Level, text string) {
	defer g.enter()()
	g.env.Log(level, text)
}

func (g *gate) TimeNow() int64 {
	defer g.enter()()
	return g.env.TimeNow()
}

func (g *gate) SecretGet(name string) string {
	defer g.enter()()
	return g.env.SecretGet(name)
}

func (g *gate) TokenRequest(request []byte) []byte {
	defer g.enter()()
	return g.env.TokenRequest(request)
}

func (g *gate) CacheGet(key string) (string, bool) {
	defer g.enter()()
	return g.env.CacheGet(key)
}

func (g *gate) CacheSet(key, value string, ttlSeconds int64) {
	defer g.enter()()
	g.env.CacheSet(key, value, ttlSeconds)
}

func (g *gate) StateGet(name string) (string, bool) {
	defer g.enter()()
	return g.env.StateGet(name)
}

func (g *gate) JWTSign(request []byte) string {
	defer g.enter()()
	return g.env.JWTSign(request)
}

func (g *gate) Encode(format, text string) string {
	defer g.enter()()
	return g.env.Encode(format, text)
}

func (g *gate) MAC(algorithm, key, data string) string {
	defer g.enter()()
	return g.env.MAC(algorithm, key, data)
}

func (g *gate) Sign(field, data string) []byte {
	defer g.enter()()
	return g.env.Sign(field, data)
}

func (g *gate) Reveal(value string) []byte {
	defer g.enter()()
	return g.env.Reveal(value)
}

func (g *gate) TimeMillis() int64 {
	defer g.enter()()
	return g.env.TimeMillis()
}

func (g *gate) ClockOffset() int64 {
	defer g.enter()()
	return g.env.ClockOffset()
}

func (g *gate) Random(bytes int64) string {
	defer g.enter()()
	return g.env.Random(bytes)
}

func (g *gate) Body() string {
	defer g.enter()()
	return g.env.Body()
}

func (g *gate) BodyForm() ([]byte, bool) {
	defer g.enter()()
	return g.env.BodyForm()
}

func (g *gate) Compose(template string, with []byte) string {
	defer g.enter()()
	return g.env.Compose(template, with)
}

func (g *gate) Challenge() []byte {
	defer g.enter()()
	return g.env.Challenge()
}

func (g *gate) Exchange(request []byte) []byte {
	defer g.enter()()
	return g.env.Exchange(request)
}

func (g *gate) CacheDrop(key string) bool {
	defer g.enter()()
	return g.env.CacheDrop(key)
}

func (g *gate) Decode(format, text string) string {
	defer g.enter()()
	return g.env.Decode(format, text)
}

func (g *gate) Digest(algorithm, data string) string {
	defer g.enter()()
	return g.env.Digest(algorithm, data)
}

func (g *gate) SignSealed(field, purpose, data string) string {
	defer g.enter()()
	return g.env.SignSealed(field, purpose, data)
}

func (g *gate) PublicKey(field, form string) string {
	defer g.enter()()
	return g.env.PublicKey(field, form)
}
