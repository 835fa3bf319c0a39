package login

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Limits of wrong tokens, for each address.
const (
	guessesAtOnce = 20
	guessPause    = 6 * time.Second
)

// maxPeers is the maximum number of addresses whose wrong tokens are counted. The one that sent none for longest is dropped first.
const maxPeers = 10_000

var errTooMany = &refusal{http.StatusTooManyRequests, "there were too many wrong tokens from this address: try again in a minute"}

// guesses counts the wrong tokens of each address. Sessions go on while tokens of their address are refused.
type guesses struct {
	clock func() time.Time
	mu    sync.Mutex
	peers *lru.Cache[netip.Prefix, *rate.Limiter]
}

func newGuesses(clock func() time.Time) *guesses {
	peers, _ := lru.New[netip.Prefix, *rate.Limiter](maxPeers) // the only error is for sizes below one
	return &guesses{clock: clock, peers: peers}
}

// begin counts a token of a peer as wrong, before anybody looks at it, so that tokens at the same moment count, too. right takes that
// back. It is nil if the token must not be looked at.
func (g *guesses) begin(remote string) (right func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	peer := networkOf(remote)
	limiter, there := g.peers.Get(peer)
	if !there {
		limiter = rate.NewLimiter(rate.Every(guessPause), guessesAtOnce)
		g.peers.Add(peer, limiter)
	}
	now := g.clock()
	reservation := limiter.ReserveN(now, 1)
	if reservation.DelayFrom(now) > 0 {
		reservation.CancelAt(now)
		return nil
	}
	return func() { reservation.CancelAt(now) }
}

// networkOf returns the address of a peer, or its network of 64 bits for IPv6, which one machine may have all of.
func networkOf(remote string) netip.Prefix {
	const network = 64
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{} // such as the peer of a Unix socket
	}
	address := peer.Addr().Unmap().WithZone("")
	bits := address.BitLen()
	if address.Is6() {
		bits = network
	}
	prefix, _ := address.Prefix(bits) // the number of bits is one that it has
	return prefix
}
