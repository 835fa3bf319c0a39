// Package s3 tests the gateway with servers that speak S3, versitygw and MinIO, and with MinIO's STS. A client of others, minio-go, sends
// each request to the server, too, and the server must answer both alike.
package s3

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio/cmd"
	"github.com/versity/versitygw/auth"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/s3api"
	"github.com/versity/versitygw/s3api/middlewares"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	accessKey = "AKIAIOSFODNN7EXAMPLE"
	secretKey = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	region    = "eu-central-1"
)

// servers are programs of others that this program becomes: each has globals, and one changes its directory.
var servers = map[string]func(address, dir string) error{
	"versitygw": func(address, dir string) error {
		// Attributes are files, because not every file system has others.
		attributes, err := meta.NewSideCar(filepath.Join(dir, "meta"))
		if err != nil {
			return err
		}
		store, err := posix.New(filepath.Join(dir, "objects"), attributes, posix.PosixOpts{
			SideCarDir: filepath.Join(dir, "meta"), CopyObjectThreshold: 1 << 30,
		})
		if err != nil {
			return err
		}
		root := auth.Account{Access: accessKey, Secret: secretKey, Role: auth.RoleAdmin}
		s, err := s3api.New(store, middlewares.RootUserConfig{Access: accessKey, Secret: secretKey}, region, auth.NewIAMServiceSingle(root),
			nil, nil, nil, nil, s3api.WithQuiet(), s3api.WithConcurrencyLimiter(1000, 1000), s3api.WithMpMaxParts(100))
		if err != nil {
			return err
		}
		return s.ServeMultiPort([]string{address})
	},
	"minio": func(address, dir string) error {
		cmd.Main([]string{"minio", "server", "--quiet", "--address", address, filepath.Join(dir, "objects")})
		return errors.New("it has ended")
	},
}

func TestMain(m *testing.M) {
	serve := servers[os.Getenv("S3_SERVER")]
	if serve == nil {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, serve(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// A store is a running server, and a client of it that is not ours.
type store struct {
	address string
	*minio.Client
}

// newStore runs a server until the test ends, with further variables of its environment.
func newStore(t *testing.T, name string, environment ...string) *store {
	t.Helper()
	self := testworld.Must(os.Executable())(t)
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &store{address: listener.Addr().String()}
	_ = listener.Close() // the server takes the port
	dir := t.TempDir()
	for _, part := range []string{"objects", "meta"} {
		testworld.Check(t, os.Mkdir(filepath.Join(dir, part), 0o700))
	}
	server := exec.Command(self, s.address, dir)
	server.Env = append(os.Environ(), "S3_SERVER="+name, "HOME="+dir,
		"MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+secretKey, "MINIO_SITE_REGION="+region,
		"MINIO_BROWSER=off", "MINIO_UPDATE=off", "MINIO_CI_CD=on") // no console, no look for a newer version, any file system
	server.Env = append(server.Env, environment...)
	var said strings.Builder
	server.Stdout, server.Stderr = &said, &said
	testworld.Check(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		_ = server.Process.Kill()
		<-ended
	})
	s.Client = testworld.Must(minio.New(s.address, &minio.Options{
		Creds: credentials.NewStaticV4(accessKey, secretKey, ""), Region: region, MaxRetries: 1,
	}))(t)
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		if _, err := s.ListBuckets(t.Context()); err == nil {
			return s
		}
		select {
		case <-ended:
			ended <- nil
			t.Fatalf("%s ends: %s", name, said.String())
		default:
		}
	}
}
