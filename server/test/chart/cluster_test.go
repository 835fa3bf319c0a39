//go:build cluster

package chart

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/keywright/keywright/internal/testworld"
)

// kubernetes is set by make chart.
var kubernetes = flag.String("kubernetes", "", "the directory of kube-apiserver and kubectl")

// cluster is an API server of Kubernetes with etcd. It has no nodes and no controllers, so no pod runs.
type cluster struct {
	t *testing.T
	// dir is the working directory of commands, with what README.md needs.
	dir  string
	etcd string
	env  []string
}

// newCluster starts etcd and the API server on an address of the loopback that is its own.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	random := make([]byte, 2)
	testworld.Must(rand.Read(random))(t)
	address := fmt.Sprintf("127.%d.%d.1", random[0], random[1])
	c := &cluster{t: t, dir: t.TempDir(), etcd: "http://" + address + ":2379"}
	key, _, err := testworld.NewKey("RS256")
	testworld.Check(t, err)
	c.write("account.pem", key)
	c.write("tokens.csv", `administrator-of-the-test,administrator,1,"system:masters"`)
	c.write("kubeconfig", `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, user: administrator}}]
clusters: [{name: test, cluster: {server: "https://`+address+`:6443", insecure-skip-tls-verify: true}}]
users: [{name: administrator, user: {token: administrator-of-the-test}}]
`)
	bin := filepath.Join(c.dir, "bin")
	testworld.Check(t, os.Mkdir(bin, 0o700))
	testworld.Check(t, os.Symlink(testworld.Must(program())(t), filepath.Join(bin, "helm")))
	build := exec.Command("go", "build", "-o", bin, "./cmd/keywright")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	testworld.Check(t, os.Symlink(testworld.Must(filepath.Abs("../../../deploy"))(t), filepath.Join(c.dir, "deploy")))
	c.env = append(os.Environ(), "PATH="+bin+":"+*kubernetes+":"+os.Getenv("PATH"), "KUBECONFIG="+c.path("kubeconfig"), "HOME="+c.dir)
	c.background("etcd", "--data-dir", c.path("etcd"), "--listen-client-urls", c.etcd, "--advertise-client-urls", c.etcd,
		"--listen-peer-urls", "http://"+address+":2380", "--initial-advertise-peer-urls", "http://"+address+":2380",
		"--initial-cluster", "default=http://"+address+":2380")
	c.background(filepath.Join(*kubernetes, "kube-apiserver"), "--etcd-servers", c.etcd, "--bind-address", address, "--secure-port", "6443",
		"--cert-dir", c.path("certificates"), "--token-auth-file", c.path("tokens.csv"), "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://cluster.test", "--service-account-key-file", c.path("account.pem"),
		"--service-account-signing-key-file", c.path("account.pem"), "--service-cluster-ip-range", "10.96.0.0/16")
	for c.run("kubectl get --raw /readyz") != nil {
		testworld.Check(t, t.Context().Err())
	}
	return c
}

func (c *cluster) path(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(name, text string) {
	c.t.Helper()
	testworld.Check(c.t, os.MkdirAll(filepath.Dir(c.path(name)), 0o700))
	testworld.Check(c.t, os.WriteFile(c.path(name), []byte(text), 0o600))
}

// background runs a program until the test ends. If the test fails, its log is written.
func (c *cluster) background(name string, args ...string) {
	c.t.Helper()
	log := testworld.Must(os.Create(c.path(filepath.Base(name) + ".log")))(c.t)
	command := exec.Command(name, args...)
	command.Stdout, command.Stderr = log, log
	testworld.Check(c.t, command.Start())
	c.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if text, err := os.ReadFile(log.Name()); c.t.Failed() && err == nil {
			c.t.Logf("%s: %s", name, text[max(0, len(text)-2000):])
		}
	})
}

// output runs a script, and returns its output.
func (c *cluster) output(script string) (string, error) {
	command := exec.CommandContext(c.t.Context(), "bash", "-euo", "pipefail", "-c", script)
	command.Dir, command.Env = c.dir, c.env
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return out.String(), &failure{err, out.String() + errs.String()}
	}
	return out.String(), nil
}

func (c *cluster) run(script string) error {
	_, err := c.output(script)
	return err
}

// do runs a script that must not fail, and logs its time.
func (c *cluster) do(script string) {
	c.t.Helper()
	began := time.Now()
	testworld.Check(c.t, c.run(script))
	first, _, _ := strings.Cut(script, "\n")
	c.t.Logf("%.1f s: %s", time.Since(began).Seconds(), first)
}

// get reads an object of the namespace.
func get[T any](c *cluster, name string) (object T) {
	c.t.Helper()
	text := testworld.Must(c.output("kubectl get -n keywright -o json " + name))(c.t)
	testworld.Check(c.t, json.Unmarshal([]byte(text), &object))
	return object
}

// replicas returns the replicas of the Deployment.
func (c *cluster) replicas() int32 {
	c.t.Helper()
	return *get[appsv1.Deployment](c, "deployment/keywright").Spec.Replicas
}

// The commands of the chart's README.md install, change, upgrade and roll back a release in a namespace with restricted pods.
func TestCluster(t *testing.T) {
	canaries := testworld.NewCanaries(t)
	c := newCluster(t)
	secret := canaries.Secret("a secret of connectors.yaml")
	c.write("secrets/orders", secret)
	c.write("secrets/state-key", canaries.Hide("the state key", base64.StdEncoding.EncodeToString([]byte(testworld.RandomSecret())[:32])))
	blocks := regexp.MustCompile("(?s)```(?:sh|yaml)\n(.*?)```").FindAllStringSubmatch(string(testworld.Must(os.ReadFile(directory+"/README.md"))(t)), -1)
	if len(blocks) != 5 {
		t.Fatalf("README.md has %d blocks, want 5: install, state, change, restart, upgrade", len(blocks))
	}
	install, state, change, restart, upgrade := blocks[0][1], blocks[1][1], blocks[2][1], blocks[3][1], blocks[4][1]
	connectors := string(testworld.Must(os.ReadFile("testdata/connectors.yaml"))(t)) + state
	c.write("connectors.yaml", connectors)

	c.do(install)
	installed := get[appsv1.Deployment](c, "deployment/keywright")
	c.admit(installed.Spec.Template)
	c.write("connectors.yaml", strings.Replace(connectors, "Orders", "Invoices", 1))
	c.do(change)
	if text := get[corev1.ConfigMap](c, "configmap/keywright").Data["connectors.yaml"]; !strings.Contains(text, "Invoices") {
		t.Errorf("after a change, the ConfigMap has %s", text)
	}
	if generation := get[appsv1.Deployment](c, "deployment/keywright").Generation; generation != installed.Generation {
		t.Errorf("after a change, the Deployment has generation %d, want %d", generation, installed.Generation)
	}
	c.do(restart)
	c.do(upgrade)
	if text := get[corev1.ConfigMap](c, "configmap/keywright").Data["connectors.yaml"]; !strings.Contains(text, "Invoices") {
		t.Errorf("after an upgrade and a rollback of it, the ConfigMap has %s", text)
	}
	c.scale()
	c.monitor()
	c.search(canaries, secret)
}

// admit creates a pod of a template. The same pod without its securityContext is refused.
func (c *cluster) admit(template corev1.PodTemplateSpec) {
	c.t.Helper()
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "keywright"}, Spec: template.Spec,
	}
	create := func(name string) error {
		c.write(name, string(testworld.Must(json.Marshal(pod))(c.t)))
		return c.run("kubectl create --dry-run=server -f " + name)
	}
	testworld.Check(c.t, create("pod.json"))
	pod.Spec.SecurityContext, pod.Spec.Containers[0].SecurityContext = nil, nil
	testworld.WantError(c.t, "without securityContext", create("unrestricted.json"), `violates PodSecurity "restricted:latest"`)
}

// scale has an autoscaler set the number of replicas, of which an upgrade and a rollback take none away. kubectl stands for the autoscaler:
// both set the subresource scale.
func (c *cluster) scale() {
	c.t.Helper()
	const upgrade = "helm upgrade keywright deploy/chart -n keywright --reset-then-reuse-values --set autoscaling.enabled=true,podLabels.step="
	for _, step := range []struct {
		script   string
		replicas int32
	}{
		{upgrade + "one", 3},
		{"kubectl scale -n keywright deployment/keywright --replicas=7", 7},
		{upgrade + "two", 7},
		{"kubectl scale -n keywright deployment/keywright --replicas=5", 5},
		{upgrade + "three", 5},
		{"helm rollback keywright -n keywright", 5},
		{"! helm rollback keywright 1 -n keywright", 5}, // to a fixed number
		{"helm rollback keywright 1 -n keywright --force-conflicts", 3},
	} {
		c.do(step.script)
		if n := c.replicas(); n != step.replicas {
			c.t.Errorf("%s: there are %d replicas, want %d", step.script, n, step.replicas)
		}
	}
}

// monitor sets all values, with a ServiceMonitor.
func (c *cluster) monitor() {
	c.t.Helper()
	out := testworld.Must(exec.Command("go", "mod", "download", "-json", "github.com/prometheus-operator/prometheus-operator@v0.85.0").Output())(c.t)
	var module struct{ Dir string }
	testworld.Check(c.t, json.Unmarshal(out, &module))
	c.do("kubectl create -f " + module.Dir + "/example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml")
	for c.run("kubectl get servicemonitors") != nil {
		testworld.Check(c.t, c.t.Context().Err())
	}
	all := testworld.Must(filepath.Abs("testdata/all.yaml"))(c.t)
	const flags = " outgoing deploy/chart -n keywright --set-file config=connectors.yaml -f "
	c.do("helm install --dry-run=server" + flags + all)
	c.do("helm install" + flags + all)
	// The server drops members of a ServiceMonitor that its schema does not have.
	endpoint := "{.spec.endpoints[0]['port', 'scheme', 'authorization.credentials.name', 'authorization.credentials.key', 'tlsConfig.serverName']}"
	const want = "operators https admins metrics-token gateway.example.com"
	if got := testworld.Must(c.output("kubectl get -n keywright servicemonitor/outgoing -o jsonpath=\"" + endpoint + "\""))(c.t); got != want {
		c.t.Errorf("the ServiceMonitor has %s, want %s", got, want)
	}
	c.do("kubectl get -n keywright horizontalpodautoscaler/outgoing networkpolicy/outgoing poddisruptionbudget/outgoing")
}

// search looks for a secret in everything that etcd has. It is in the Secret that the user has made, and nowhere else.
func (c *cluster) search(canaries *testworld.Canaries, secret string) {
	c.t.Helper()
	everything := `{"key": "AA==", "range_end": "AA=="}` // from the key 0 on
	request := testworld.Must(http.NewRequestWithContext(context.Background(), http.MethodPost, c.etcd+"/v3/kv/range", strings.NewReader(everything)))(c.t)
	response := testworld.Must(http.DefaultClient.Do(request))(c.t)
	defer response.Body.Close()
	var answer struct {
		KVs []struct{ Key, Value []byte }
	}
	testworld.Check(c.t, json.NewDecoder(response.Body).Decode(&answer))
	releases := 0
	for _, kv := range answer.KVs {
		key, value := string(kv.Key), string(kv.Value)
		if record := regexp.MustCompile(`H4sI[A-Za-z0-9+/=]+`).FindString(value); record != "" { // the base64 of a gzip stream
			releases++
			stream := testworld.Must(gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(record))))(c.t)
			value += string(testworld.Must(io.ReadAll(stream))(c.t))
		}
		if key != "/registry/secrets/keywright/keywright-apis" {
			canaries.Out(key, value)
		} else if !strings.Contains(value, secret) {
			c.t.Error("the Secret of the user does not have the secret, so the search finds nothing")
		}
	}
	c.t.Logf("%d values in etcd, %d of them records of releases", len(answer.KVs), releases)
	if releases < 5 {
		c.t.Errorf("%d records of releases, want 5 or more", releases)
	}
}
