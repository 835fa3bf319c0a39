package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// topPath is the path of the module of the library. That of the command is in its directory server.
const topPath = "github.com/keywright/keywright"

// writeCommit makes the commit of both tags. It has the tree of the commit rev, but its server/go.mod requires the library by version instead of
// replacing it, since `go install` refuses a module that replaces, and its server/go.sum has the hashes of that version. The archive of
// the library has nothing of server/, so its hash does not depend on the change. If rev has that requirement, it is the commit itself.
func (r *release) writeCommit(ctx context.Context, rev string) {
	sums := r.hashes(ctx, rev)
	date := must(git(ctx, r.repo, "show", "-s", "--format=%cI", rev))
	r.date = must(time.Parse(time.RFC3339, date)).UTC()
	mod, edited := r.requirement(ctx, rev)
	if bytes.Equal(mod, edited) {
		r.commit = rev
		return
	}
	old := r.source(ctx, rev, "server/go.sum")
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(r.work, "index")}
	must(command(ctx, r.repo, index, nil, "git", "read-tree", rev))
	for path, text := range map[string][]byte{"server/go.mod": edited, "server/go.sum": append(old, sums...)} {
		blob := must(command(ctx, r.repo, nil, bytes.NewReader(text), "git", "hash-object", "-w", "--stdin"))
		must(command(ctx, r.repo, index, nil, "git", "update-index", "--cacheinfo", "100644,"+blob+","+path))
	}
	tree := must(command(ctx, r.repo, index, nil, "git", "write-tree"))
	author := []string{
		"GIT_AUTHOR_NAME=Keywright", "GIT_AUTHOR_EMAIL=keywright@users.noreply.github.com", "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=Keywright", "GIT_COMMITTER_EMAIL=keywright@users.noreply.github.com", "GIT_COMMITTER_DATE=" + date,
	}
	r.commit = must(command(ctx, r.repo, author, nil, "git", "commit-tree", tree, "-p", rev, "-m", "Keywright "+r.version))
}

// requirement returns server/go.mod, and the same with a requirement in place of the replacement.
func (r *release) requirement(ctx context.Context, rev string) (mod, edited []byte) {
	mod = r.source(ctx, rev, "server/go.mod")
	file := must(modfile.Parse("server/go.mod", mod, nil))
	require(errors.Join(file.DropReplace(topPath, ""), file.AddRequire(topPath, r.version)))
	file.Cleanup()
	if len(file.Replace)+len(file.Exclude) > 0 {
		require(errors.New("server/go.mod replaces or excludes other modules, so that `go install` would refuse it: remove that"))
	}
	return mod, must(file.Format())
}

// hashes returns the lines of go.sum for the library. The go command writes the same once the version is published.
func (r *release) hashes(ctx context.Context, rev string) string {
	path := filepath.Join(r.work, "top.zip")
	r.writeZip(path, rev, "")
	all := must(dirhash.HashZip(path, dirhash.Hash1))
	text := r.source(ctx, rev, "go.mod")
	mod := must(dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(text)), nil
	}))
	return fmt.Sprintf("%[1]s %[2]s %[3]s\n%[1]s %[2]s/go.mod %[4]s\n", topPath, r.version, all, mod)
}

// writeZip writes the archive of a module as the go command does.
func (r *release) writeZip(path, rev, dir string) {
	file := must(os.Create(path))
	m := module.Version{Path: strings.TrimSuffix(topPath+"/"+dir, "/"), Version: r.version}
	require(errors.Join(zip.CreateFromVCS(file, m, r.repo, rev, dir), file.Close()))
}

// writeProxy writes both modules in the layout of a GOPROXY (https://go.dev/ref/mod#goproxy-protocol).
func (r *release) writeProxy(ctx context.Context) (err error) {
	defer catch(&err)
	for _, dir := range []string{"", "server"} {
		base := filepath.Join(r.dir, "proxy", filepath.FromSlash(topPath), dir, "@v")
		require(os.MkdirAll(base, 0o755))
		r.writeZip(filepath.Join(base, r.version+".zip"), r.commit, dir)
		mod := r.source(ctx, r.commit, strings.TrimPrefix(dir+"/go.mod", "/"))
		info := must(json.Marshal(struct {
			Version string
			Time    time.Time
		}{r.version, r.date}))
		for name, text := range map[string][]byte{r.version + ".mod": mod, r.version + ".info": info, "list": []byte(r.version + "\n")} {
			write(filepath.Join(base, name), text)
		}
	}
	return nil
}

// git returns what a command of git prints, without the newline at its end.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	return command(ctx, dir, nil, nil, "git", args...)
}

// command is like output, without the newline at the end.
func command(ctx context.Context, dir string, env []string, input io.Reader, name string, args ...string) (string, error) {
	text, err := output(ctx, dir, env, input, name, args...)
	return strings.TrimSuffix(string(text), "\n"), err
}

// output returns what a program prints. The environment has env, too.
func output(ctx context.Context, dir string, env []string, input io.Reader, name string, args ...string) ([]byte, error) {
	var problems bytes.Buffer
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Env, c.Stdin, c.Stderr = dir, append(os.Environ(), env...), input, &problems
	text, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, problems.Bytes())
	}
	return text, nil
}
