// Package login lets operators in to a listener that others can reach: by a token that is in a file, by one of several tokens with names
// and rights, or by a claim of their session.
package login

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/records"
)

// Config configures a [Login]. It must have a TokenFile, a TokensDir or a Claim.
type Config struct {
	// TokenFile is the path of a file with the token of operators. If it is empty, there is no token. A change of the file
	// takes effect at once, and ends the sessions of the token before.
	TokenFile string
	// TokensDir is the path of a directory with a file for each further token: its name is who acts, its first line is sha256: and the
	// hash of the token in hexadecimal digits, and each line after it is a right, see [Right]. If it is empty, there are none.
	TokensDir string
	// MetricsTokenFile is the path of a file with a token that is good for GET /metrics only, for a Prometheus. If it is
	// empty, there is none.
	MetricsTokenFile string
	// Claim and Value say which sessions are those of operators, see [identity.HasClaim]. If Claim is empty, none is.
	Claim, Value string
	// Claims returns the claims of the session of a request, like [identity.Identifier.Claims]. It is nil without a Claim.
	Claims func(*http.Request) (map[string]any, error)
	// If Clock is nil, time.Now is used.
	Clock func() time.Time
	// Logger logs logins, and tokens that are refused.
	Logger *slog.Logger
	// Sessions, if not nil, keeps the sessions of all nodes. Without it, a session is one of this process.
	Sessions *records.Store
	// Acted, if not nil, is called after a login, a refused one and a logout, with who it was, or "" if nobody knows.
	Acted func(r *http.Request, who, act string, ok bool)
}

// A Login decides which requests are those of operators. It is safe for concurrent use.
type Login struct {
	config Config
	// operators and metrics have the tokens.
	operators []*source
	metrics   *source
	sessions  *sessions
	guesses   *guesses
}

// New returns a Login. It returns an error if a file has no token that can be used, or if nobody could log in.
func New(c Config) (*Login, error) {
	if c.TokenFile == "" && c.Claim == "" && c.TokensDir == "" {
		return nil, errors.New("a login needs a token or a claim: nobody could log in")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Acted == nil {
		c.Acted = func(*http.Request, string, string, bool) {}
	}
	peers, _ := lru.New[netip.Prefix, *rate.Limiter](10_000) // the only error is for sizes below one
	all, _ := lru.New[digest, session](1000)
	l := &Login{
		config: c, sessions: &sessions{clock: c.Clock, all: all, shared: c.Sessions}, guesses: &guesses{clock: c.Clock, peers: peers},
		operators: []*source{{path: c.TokenFile, read: readToken}, {path: c.TokensDir, read: readTokens}},
		metrics:   &source{path: c.MetricsTokenFile, read: readToken},
	}
	metrics, err := l.metrics.tokens()
	for _, s := range l.operators {
		operators, unread := s.tokens()
		err = errors.Join(err, unread)
		for _, o := range operators {
			if len(metrics) > 0 && o.token.equals(metrics[0].token) {
				return nil, fmt.Errorf("%s and %s have the same token: make another one for the metrics, because operators may do more", s.path, c.MetricsTokenFile)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// A refusal is the answer to a request that is not of an operator.
type refusal struct {
	status int
	text   string
}

// Guard returns a handler that passes the requests of operators on to h. It serves /login and /logout itself.
func (l *Login) Guard(h http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", l.ask)
	mux.HandleFunc("POST /login", l.enter)
	mux.Handle("POST /logout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(l.leave)))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		operator, denial := l.admit(r)
		switch {
		case denial != nil:
			l.refuse(w, r, denial)
			return
		case strings.HasPrefix(r.URL.Path, "/debug/") && !operator.Everything:
			http.Error(w, "profiles are for operators with all rights", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operatorKey{}, operator)))
	})
	return mux
}

// admit returns the operator of a request, or a refusal if it is of none. A token that is not the one of an operator may still be a session
// token, so it counts as wrong unless the request has an operator's session. Whether it is a session token of somebody else does not
// matter: the session may come from a cookie (threats.md 156).
func (l *Login) admit(r *http.Request) (*Operator, *refusal) {
	if first, there := l.sessions.find(r); there {
		if operator, err := l.operator(r.Context(), first); err == nil && operator != nil {
			operator.Session = true
			return operator, nil
		}
	}
	token, there := bearer(r.Header)
	var right func()
	if there {
		right = l.guesses.begin(r.RemoteAddr)
	}
	var unread error
	if right != nil {
		var operator *Operator
		if operator, unread = l.operator(r.Context(), token); operator == nil && l.forMetrics(r, token) {
			operator = &Operator{Name: "metrics", Rights: []Right{Read}} // for that path alone
		}
		if operator != nil {
			right()
			return operator, nil
		}
	} else if !there {
		_, unread = l.operators[0].news(r.Context(), l.config.Logger) // of the token file alone: one bad file of the directory keeps nobody else out
	}
	who, denial := l.byClaim(r)
	switch {
	case denial == nil:
		if right != nil {
			right()
		}
		return &Operator{Name: who, Everything: true}, nil
	case there && right == nil:
		return nil, errTooMany
	case there:
		l.wrong(r)
	}
	if unread != nil && denial.status == http.StatusUnauthorized {
		return nil, &refusal{http.StatusServiceUnavailable, "the token of operators cannot be read: the log says why"}
	}
	return nil, denial
}

// operator returns the operator with a token, or nil if nobody has it.
func (l *Login) operator(ctx context.Context, token digest) (*Operator, error) {
	var unread error
	for _, s := range l.operators {
		all, err := s.news(ctx, l.config.Logger)
		unread = errors.Join(unread, err)
		for i := range all {
			if token.equals(all[i].token) {
				return &all[i].Operator, nil
			}
		}
	}
	return nil, unread
}

// forMetrics reports whether a request is one for the metrics, with the token for these.
func (l *Login) forMetrics(r *http.Request, token digest) bool {
	if r.URL.Path != "/metrics" || r.Method != http.MethodGet {
		return false
	}
	all, _ := l.metrics.news(r.Context(), l.config.Logger)
	return len(all) > 0 && token.equals(all[0].token)
}

// byClaim returns the subject of the session of a request, or a refusal if the session has not the claim of operators.
func (l *Login) byClaim(r *http.Request) (who string, _ *refusal) {
	const logIn = "log in: this is for operators"
	if l.config.Claim == "" {
		return "", &refusal{http.StatusUnauthorized, logIn}
	}
	claims, err := l.config.Claims(r)
	switch {
	case errors.Is(err, identity.ErrUnavailable):
		return "", &refusal{http.StatusServiceUnavailable, "sessions cannot be verified now: try again"}
	case err != nil:
		return "", &refusal{http.StatusUnauthorized, logIn}
	case !identity.HasClaim(claims, l.config.Claim, l.config.Value):
		return "", &refusal{http.StatusForbidden, fmt.Sprintf("this session is not of an operator: its claim %s is not %s", l.config.Claim, l.config.Value)}
	}
	who, _ = claims["sub"].(string)
	return cmp.Or(who, "session"), nil
}

func (l *Login) wrong(r *http.Request) {
	l.config.Acted(r, "", "login", false)
	l.config.Logger.LogAttrs(r.Context(), slog.LevelWarn, "a wrong token at the operators' listener", slog.String("peer", r.RemoteAddr))
}

// refuse answers a request that is not of an operator. A person gets a page.
func (l *Login) refuse(w http.ResponseWriter, r *http.Request, denial *refusal) {
	switch {
	case !navigates(r):
		if denial.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="keywright operators"`)
		}
		denial.retry(w.Header())
		http.Error(w, denial.text, denial.status)
	case l.hasForm() && (denial.status == http.StatusUnauthorized || denial.status == http.StatusForbidden):
		http.Redirect(w, r, loginURL(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		l.show(w, denial.status, &page{Problem: denial.text})
	}
}

// retry sets Retry-After for a refusal that time ends.
func (r *refusal) retry(header http.Header) {
	switch r.status {
	case http.StatusTooManyRequests:
		header.Set("Retry-After", "60")
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	}
}

// bearer returns the digest of the token of the header Authorization.
func bearer(h http.Header) (token digest, there bool) {
	values := h.Values("Authorization")
	if len(values) != 1 {
		return digest{}, false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	return digestOf(strings.TrimSpace(text)), strings.EqualFold(scheme, "Bearer")
}

// navigates reports whether a person waits for a page.
func navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// A digest is that of a token. Comparing two takes the same time for all tokens.
type digest [sha256.Size]byte

// digestOf returns the digest of a token. That of one which is too short is zero and equals none: its hash may be in a file by mistake, as that
// of a variable that was not set.
func digestOf(token string) digest {
	if len(token) < minToken {
		return digest{}
	}
	return sha256.Sum256([]byte(token))
}

func (d digest) equals(e digest) bool {
	return d != digest{} && subtle.ConstantTimeCompare(d[:], e[:]) == 1
}

var errTooMany = &refusal{http.StatusTooManyRequests, "there were too many wrong tokens from this address: try again in a minute"}

// guesses counts the wrong tokens of each address. Sessions go on while tokens of their address are refused.
type guesses struct {
	clock func() time.Time
	mu    sync.Mutex
	// peers has the addresses whose wrong tokens are counted. The one that sent none for longest is dropped first.
	peers *lru.Cache[netip.Prefix, *rate.Limiter]
}

// begin counts a token of a peer as wrong, before anybody looks at it, so that tokens at the same moment count, too. right takes that
// back. It is nil if the token must not be looked at.
func (g *guesses) begin(remote string) (right func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	peer := urlcheck.Network(remote)
	limiter, there := g.peers.Get(peer)
	if !there {
		limiter = rate.NewLimiter(rate.Every(6*time.Second), 20) // so many wrong tokens at once, and one more after each pause
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

// Limits of a token, in bytes. A shorter one could be guessed by trying.
const minToken, maxToken = 16, 4 << 10

// A source is a file with a token, or a directory of such files. It is read each time, which costs little and finds every change.
type source struct {
	// path is "" if there are no tokens.
	path string
	read func(path string) ([]namedToken, error)
	mu   sync.Mutex
	// failure is the last error that was logged. It is empty if the tokens could be read.
	failure string
}

func (s *source) tokens() ([]namedToken, error) {
	if s.path == "" {
		return nil, nil
	}
	return s.read(s.path)
}

// news returns the tokens. It logs an error that is not the one of the last time, so that nobody fills the log.
func (s *source) news(ctx context.Context, logger *slog.Logger) ([]namedToken, error) {
	all, err := s.tokens()
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	s.mu.Lock()
	isNew := failure != s.failure
	s.failure = failure
	s.mu.Unlock()
	switch {
	case isNew && err != nil:
		logger.LogAttrs(ctx, slog.LevelError, "the tokens of a login cannot be read, and nobody gets in with one of them", slog.Any("error", err))
	case isNew:
		logger.LogAttrs(ctx, slog.LevelInfo, "the tokens of a login were read", slog.String("file", s.path))
	}
	return all, err
}

// readToken reads a file with a token, for operators who may do everything. Its errors do not have the token.
func readToken(path string) ([]namedToken, error) {
	const worldBits = 0o007 // the mode bits of everybody on the machine
	content, err := readFile(path, worldBits, "%s is open to everybody on this machine (its mode is %04o): chmod o= it, and make a new token")
	if err != nil {
		return nil, err
	}
	token := strings.TrimSuffix(strings.TrimSuffix(content, "\n"), "\r")
	if err := check(token); err != nil {
		return nil, fmt.Errorf("%s: the token %w, such as that of `openssl rand -hex 32`", path, err)
	}
	return []namedToken{{Operator{Name: "token", Everything: true}, digestOf(token)}}, nil
}

// readFile reads a regular file. If it has one of these mode bits, it returns an error with the path and the mode.
func readFile(path string, bits fs.FileMode, format string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case info.Mode().Perm()&bits != 0 && info.Mode().IsRegular() && runtime.GOOS != "windows": // Windows has no such modes
		return "", fmt.Errorf(format, path, info.Mode().Perm())
	}
	content, err := files.ReadRegular(path, maxToken)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return string(content), nil
}

func check(token string) error {
	switch {
	case len(token) < minToken:
		return fmt.Errorf("has less than %d bytes: make a random one", minToken)
	case len(token) > maxToken:
		return fmt.Errorf("has more than %d bytes: make a shorter one", maxToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("has blanks or characters that a header cannot have: make one of letters and digits")
	}
	return nil
}
