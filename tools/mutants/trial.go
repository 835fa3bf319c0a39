package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slowTests has the tests that take most of the time of their packages. They run only if the others notice nothing.
var slowTests = []string{
	"TestNoPartitionReadsAnothersValue", "TestIndependentImplementationVerifiesManySignatures",
	"TestMeteringChangesNoResultOfTheSpecification", "TestHostileAnswers", "TestStoreMatchesModel",
	"TestReadersSeeNoTornPages", "TestManyOpenAtOnce", "TestManyArticlesOfOneActivity", "TestInvisibleReuse",
	"TestDecision_Tokens_many_requests_at_once_one_exchange", "TestWritableCodeCache",
	"TestIndependentJWTVerification", "TestIndependentTokens", "TestNoCanaryComesOut",
	"TestHostileEndpoints", "TestHostileMetadata", "TestHostMadeSinks_threats_15a",
}

// sandboxTests matches the subtests of hosttest.Run that need the compiled module of a plugin. They do not run for mutations of
// plugins: TinyGo would take half a minute for each, and the native subtests run the same code with the same cases.
const sandboxTests = ".*/^sandbox(#.*)?$|.*/.*/^sandbox(#.*)?$|.*/.*/.*/^sandbox(#.*)?$"

// testedBy maps packages to the packages that have most of their tests.
var testedBy = map[string][]string{
	"host/internal/answer":  {"host"},
	"host/internal/compose": {"host"},
	"host/internal/hostfn":  {"host"},
	"host/internal/mask":    {"host"},
	"plugins/internal/oauth": {
		"plugins/oauthcc", "plugins/refreshtoken", "plugins/tokenexchange", "plugins/authcode", "plugins/jwtbearer", "plugins/oauthpassword", "plugins/dpop",
	},
	"plugins/internal/sigv4": {"plugins/awssigv4", "plugins/awsassumerole"},
}

const (
	mostTimes  = 3 // the tests may take this many times the processor time that they take without a mutation
	leastLimit = 5 * time.Second
)

// errNotGood is the error for a mutation that does not compile.
var errNotGood = errors.New("the package does not compile")

const (
	processorTime = "processor-time"
	numbersFile   = "numbers.json"
)

// trial runs the tests of a package until one notices the mutation. The directory state is the same for all mutations of the
// package. It has these files:
//
//   - processor-time has the time that the tests take without a mutation.
//   - numbers.json has the numbers of the mutations of the schema, and schema-N its compiled tests.
//   - reached-N has the tests that reach the mutation with this number. They run first. Others follow, since it may be chance.
//   - noticed-FILE has the tests that have noticed mutations of the file. Of the first, they run before the others.
//   - endless has a line for each mutation whose tests have used up their processor time, or wait for nothing.
type trial struct {
	// root is the directory of the module. dir is the package, relative to root.
	root, dir string
	// packages has dir and the packages that test it.
	packages []string
	// file is the name of the file with the mutation. It is empty for the run without a mutation.
	file string
	// number is the number of the mutation in the schema. It is negative if the mutation has to be compiled.
	number int
	// timeout is the time limit of a test binary, as a flag.
	timeout string
	state   string
	limit   time.Duration
	// compiled reports which packages are compiled in scratch, if the mutation has to be.
	scratch  string
	compiled map[string]bool
	// passes has the tests that do not notice the mutation, by package.
	passes map[string][]string
	// used is the processor time of the tests so far.
	used time.Duration
}

func newTrial(root, dir, file string) *trial {
	return &trial{
		root: root, dir: dir, packages: append([]string{dir}, testedBy[dir]...), file: file, timeout: "0", state: os.Getenv(stateName),
		limit: time.Hour, compiled: map[string]bool{}, passes: map[string][]string{},
	}
}

// choose finds the mutation in the schema, and sets its limit.
func (t *trial) choose() error {
	text, err := os.ReadFile(filepath.Join(t.state, processorTime))
	if err != nil {
		return err
	}
	usual, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	t.limit = max(leastLimit, mostTimes*usual)
	if text, err = os.ReadFile(filepath.Join(t.state, numbersFile)); err != nil {
		return err
	}
	var numbers map[string]int
	if err := json.Unmarshal(text, &numbers); err != nil {
		return err
	}
	name, err := mutationOf(filepath.Join(t.root, t.dir), os.Getenv(origName), t.file)
	t.number = -1
	if n, ok := numbers[name]; ok {
		t.number = n
	}
	return err
}

// compileAll compiles the schema of the package.
func (t *trial) compileAll(ctx context.Context) error {
	var tests []string
	for _, name := range t.packages {
		tests = append(tests, filepath.Join(t.root, name))
	}
	overlay, numbers, err := writeSchema(ctx, tests[0], tests, t.state)
	if err != nil {
		return fmt.Errorf("the schema: %w", err)
	}
	for _, name := range t.packages {
		if err := t.compile(ctx, name, t.binary(name), "-overlay", overlay); err != nil {
			return err
		}
	}
	text, err := json.Marshal(numbers)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.state, numbersFile), text, 0o600)
}

// binary returns the path of the compiled tests of a package.
func (t *trial) binary(name string) string {
	i := slices.Index(t.packages, name)
	if t.number < 0 {
		return filepath.Join(t.scratch, fmt.Sprintf("tests-%d", i))
	}
	return filepath.Join(t.state, fmt.Sprintf("schema-%d", i))
}

// run returns an error if a test fails.
func (t *trial) run(ctx context.Context) (err error) {
	if t.scratch, err = os.MkdirTemp(t.state, "scratch-"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(t.scratch) }()
	skip := ""
	if strings.HasPrefix(t.dir, "plugins/") {
		skip = "|" + sandboxTests
	}
	reach := t.readTests("reached-" + strconv.Itoa(t.number))
	for _, choose := range []func(name string) []string{
		func(name string) []string { // those that are likely to notice it
			tests := t.readTests("noticed-" + t.file)[name]
			if t.number < 0 {
				return tests
			}
			return slices.DeleteFunc(tests, func(test string) bool { return !slices.Contains(reach[name], test) })
		},
		func(name string) []string { return slices.DeleteFunc(slices.Clone(reach[name]), isSlow) },
	} {
		for _, name := range t.packages {
			tests := slices.DeleteFunc(choose(name), func(test string) bool { return slices.Contains(t.passes[name], test) })
			if len(tests) == 0 {
				continue
			}
			if err := t.test(ctx, name, "-test.run", exactly(tests...), "-test.skip", "^$"+skip); err != nil {
				return err
			}
			t.passes[name] = append(t.passes[name], tests...)
		}
	}
	for _, name := range t.packages {
		if err := t.test(ctx, name, "-test.skip", exactly(append(t.passes[name], slowTests...)...)+skip); err != nil {
			return err
		}
	}
	for _, name := range t.packages {
		if err := t.test(ctx, name, "-test.run", exactly(slowTests...), "-test.skip", "^$"+skip); err != nil {
			return err
		}
	}
	return nil
}

func isSlow(test string) bool { return slices.Contains(slowTests, test) }

// exactly returns a pattern for the names of tests.
func exactly(names ...string) string { return "^(" + strings.Join(names, "|") + ")$" }

// test runs the tests of a package.
func (t *trial) test(ctx context.Context, name string, args ...string) error {
	binary := t.binary(name)
	if t.number < 0 && !t.compiled[name] {
		if err := t.compile(ctx, name, binary); err != nil {
			return err
		}
		t.compiled[name] = true
	}
	if _, err := os.Stat(binary); errors.Is(err, os.ErrNotExist) { // the package has no tests
		return nil
	}
	dir := filepath.Join(t.root, name)
	if err := os.RemoveAll(filepath.Join(dir, "testdata", "rapid")); err != nil {
		return err
	}
	// A limit of the processor time stops an endless loop soon, and a busy machine does not matter.
	limited := []string{"-c", `ulimit -t "$0" && exec "$@"`, fmt.Sprint(int(t.limit.Seconds())), binary, "-test.failfast", "-test.paniconexit0", "-test.timeout", t.timeout}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := exec.CommandContext(ctx, "/bin/sh", append(limited, args...)...)
	var out bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(environment(), fmt.Sprintf("%s=%d", activeName, t.number)), &out, &out
	if t.file == "" {
		cmd.Env = append(cmd.Env, reachedName+"="+t.reachedBy(name))
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go stopIdle(ctx, cmd.Process.Pid, 20*time.Second, stop)
	err := cmd.Wait()
	t.used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if err == nil {
		return nil
	}
	if cmd.ProcessState.ExitCode() < 0 { // killed
		err = t.add("endless", t.file)
	} else if failed := failedTest.FindSubmatch(out.Bytes()); failed != nil && t.file != "" {
		err = t.add("noticed-"+t.file, name+" "+string(failed[1]))
	} else {
		err = nil
	}
	return errors.Join(fmt.Errorf("the tests of %s fail: %s", name, &out), err)
}

// stopIdle calls stop when a process has used no processor time for so long, because all of it waits. It needs the /proc of Linux.
// On other systems, the time limit of the tests remains.
func stopIdle(ctx context.Context, pid int, wait time.Duration, stop func()) {
	const ticks = 5 // of 10 ms: the runtime wakes up now and then
	last, since := 0, time.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return
		}
		_, fields, _ := strings.Cut(string(text), ") ")
		var user, system int
		if _, err := fmt.Sscanf(strings.Join(strings.Fields(fields)[11:13], " "), "%d %d", &user, &system); err != nil {
			return
		}
		if user+system > last+ticks {
			last, since = user+system, time.Now()
		} else if time.Since(since) > wait {
			stop()
		}
	}
}

// failedTest matches the name of a test that fails, at the top level.
var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\w+) `)

// compile compiles the tests of a package into a file.
func (t *trial) compile(ctx context.Context, name, binary string, flags ...string) error {
	args := append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}, flags...)
	cmd := exec.CommandContext(ctx, os.Getenv(realGo), append(args, "./"+name)...)
	cmd.Dir, cmd.Env = t.root, environment()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", errNotGood, out)
	}
	return nil
}

// add adds a line to a file of the state.
func (t *trial) add(name, line string) error {
	file, err := os.OpenFile(filepath.Join(t.state, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, line)
	return errors.Join(err, file.Close())
}

// readTests returns the tests in a file of the state, by package. The file may not exist.
func (t *trial) readTests(name string) map[string][]string {
	text, _ := os.ReadFile(filepath.Join(t.state, name))
	tests := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		name, test, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(tests[name], test) {
			tests[name] = append(tests[name], test)
		}
	}
	return tests
}
