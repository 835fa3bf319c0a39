// Package identities_test checks identities of the process against the libraries that others have for the same sources and parties.
package identities_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/identities"
	"github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"
	"github.com/spiffe/go-spiffe/v2/workloadapi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// agent is a Workload API on a server of gRPC, with identities of a process.
type agent struct {
	workload.UnimplementedSpiffeWorkloadAPIServer
	key *ecdsa.PrivateKey

	mu       sync.Mutex
	ids      []string
	requests []*workload.JWTSVIDRequest
}

// newAgent starts an agent with identities, and returns the path of its socket.
func newAgent(t *testing.T, ids ...string) (a *agent, socket string) {
	a = &agent{key: testworld.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t), ids: ids}
	socket = filepath.Join(t.TempDir(), "agent.sock")
	server := grpc.NewServer()
	workload.RegisterSpiffeWorkloadAPIServer(server, a)
	listener := testworld.Must(net.Listen("unix", socket))(t)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return a, socket
}

// FetchJWTSVID implements the method of the Workload API: sections 3 of Workload Endpoint and 6.2.1 of Workload API in the standards of
// github.com/spiffe/spiffe.
func (a *agent) FetchJWTSVID(ctx context.Context, r *workload.JWTSVIDRequest) (*workload.JWTSVIDResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	header, _ := metadata.FromIncomingContext(ctx)
	if !slices.Equal(header.Get("workload.spiffe.io"), []string{"true"}) {
		return nil, status.Error(codes.InvalidArgument, "security header missing from request")
	}
	a.requests = append(a.requests, r)
	answer := &workload.JWTSVIDResponse{}
	for i, id := range a.ids {
		if r.SpiffeId != "" && r.SpiffeId != id {
			continue
		}
		token := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{"sub": id, "aud": r.Audience, "exp": time.Now().Add(5 * time.Minute).Unix()})
		text, err := token.SignedString(a.key)
		if err != nil {
			return nil, err
		}
		answer.Svids = append(answer.Svids, &workload.JWTSVID{SpiffeId: id, Svid: text, Hint: fmt.Sprint("hint-", i)})
	}
	if len(answer.Svids) == 0 {
		return nil, status.Error(codes.PermissionDenied, "no identity issued")
	}
	return answer, nil
}

// A server of gRPC gets the same request from go-spiffe's client, and both have the same identity.
func TestWorkloadAPI(t *testing.T) {
	const id, audience = "spiffe://prod.test/orders", "sts.amazonaws.com"
	for name, c := range map[string]struct {
		ids           []string
		hint, subject string
		want          string
	}{
		"one":             {ids: []string{id}},
		"one by its hint": {ids: []string{"spiffe://prod.test/other", id}, hint: "hint-1"},
		"one by its ID":   {ids: []string{"spiffe://prod.test/other", id}, subject: id},
		"two":             {ids: []string{id, "spiffe://prod.test/other"}, want: "has 2 identities"},
		"none":            {want: "no such identity for this process"},
		"another's ID":    {ids: []string{id}, subject: "spiffe://prod.test/other", want: "no such identity for this process"},
	} {
		t.Run(name, func(t *testing.T) {
			a, socket := newAgent(t, c.ids...)
			set := identities.New(time.Now, identities.Identity{
				Name: "pod", For: []identities.Audience{{Audience: audience, Hosts: []string{"sts.test"}}}, Expect: identities.Expectation{Subject: c.subject},
				Fetch: identities.Workload{Socket: socket, Hint: c.hint}.Get(c.subject),
			})
			got, err := set.Identity(t.Context(), host.IdentityRequest{Name: "pod", Audience: audience, Exchange: true})
			params := jwtsvid.Params{Audience: audience}
			if c.subject != "" {
				params.Subject = spiffeid.RequireFromString(c.subject)
			}
			client := testworld.Must(workloadapi.New(t.Context(), workloadapi.WithAddr("unix://"+socket)))(t)
			defer client.Close()
			all, failure := client.FetchJWTSVIDs(t.Context(), params)
			if len(a.requests) > 1 && !proto.Equal(a.requests[0], a.requests[1]) {
				t.Errorf("the request is %v, and that of go-spiffe is %v", a.requests[0], a.requests[1])
			}
			if c.want != "" {
				testworld.WantError(t, name, err, c.want)
				return
			}
			if err != nil || failure != nil {
				t.Fatal(err, failure)
			}
			svid, err := jwtsvid.ParseInsecure(got, []string{audience})
			if err != nil || svid.ID.String() != id || !slices.ContainsFunc(all, func(s *jwtsvid.SVID) bool { return s.ID == svid.ID }) || len(a.requests) != 2 {
				t.Errorf("the SVID is %v, with the error %v; go-spiffe has %v; %d requests", svid, err, all, len(a.requests))
			}
		})
	}
}
