// Package chart tests the Helm chart in deploy/chart with helm, the schemas and the Pod Security checks of Kubernetes, and the gateway that
// its pods run. With the tag cluster, it also installs the chart with the API server of Kubernetes.
package chart

import (
	"bytes"
	"io"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/keywright/keywright/internal/testworld"
)

const directory = "../../../deploy/chart"

// config is the flag of helm with the text of connectors.yaml.
var config = []string{"--set-file", "config=testdata/connectors.yaml"}

// program builds helm, and returns its path. Go keeps what it has built.
var program = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(out)), err
})

// helm runs helm, and returns its output. If it fails, err has what it says.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), testworld.Must(program())(t), args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); err != nil {
		return out.String(), &failure{err, out.String() + errs.String()}
	}
	return out.String(), nil
}

// failure is an error of a program with its output.
type failure struct {
	error
	output string
}

func (f *failure) Error() string { return f.error.Error() + ": " + f.output }

// render returns the objects of the chart.
func render(t *testing.T, flags ...string) string {
	t.Helper()
	return testworld.Must(helm(t, append([]string{"template", "keywright", directory, "--namespace", "apps"}, flags...)...))(t)
}

// header is the part of an object that says what it is.
type header struct{ Kind string }

// decode returns the objects of a text whose kind is that of T.
func decode[T any](t *testing.T, text, kind string) (objects []T) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var head header
		testworld.Check(t, yaml.Unmarshal([]byte(document), &head))
		if head.Kind != kind {
			continue
		}
		var object T
		testworld.Check(t, yaml.UnmarshalStrict([]byte(document), &object))
		objects = append(objects, object)
	}
	return objects
}

// deployment returns the Deployment of a text.
func deployment(t *testing.T, text string) appsv1.Deployment {
	t.Helper()
	all := decode[appsv1.Deployment](t, text, "Deployment")
	if len(all) != 1 {
		t.Fatalf("%d Deployments, want 1", len(all))
	}
	return all[0]
}

// kinds returns the kinds of a text, sorted.
func kinds(t *testing.T, text string) (all []string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		var head header
		testworld.Check(t, yaml.Unmarshal([]byte(document), &head))
		all = append(all, head.Kind)
	}
	slices.Sort(all)
	return all
}

// releases has values of users, and what the chart makes of them.
var releases = []struct {
	name  string
	flags []string
	kinds string
	image string
	// replicas is 0 if an autoscaler sets them.
	replicas    int32
	memory      string
	gracePeriod int64
}{
	{
		"defaults", config, "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount",
		"ghcr.io/keywright/keywright:0.1.0", 3, "3686MiB", 60,
	},
	{
		"a ConfigMap of the user's",
		[]string{"--set", "existingConfigMap=own,replicas=2,drainDelaySeconds=0,image.tag=0.1.1,resources.limits.memory=512Mi"},
		"Deployment NetworkPolicy PodDisruptionBudget Service Service ServiceAccount",
		"ghcr.io/keywright/keywright:0.1.1", 2, "460MiB", 50,
	},
	{
		"autoscaling", append([]string{"--set", "autoscaling.enabled=true,autoscaling.minReplicas=4,networkPolicy.enabled=false"}, config...),
		"ConfigMap Deployment HorizontalPodAutoscaler PodDisruptionBudget Service Service ServiceAccount",
		"ghcr.io/keywright/keywright:0.1.0", 0, "3686MiB", 60,
	},
	{
		"all values", append([]string{"-f", "testdata/all.yaml"}, config...),
		"ConfigMap Deployment HorizontalPodAutoscaler NetworkPolicy PodDisruptionBudget Service Service ServiceAccount ServiceMonitor",
		"registry.example.com/keywright@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 0, "900MiB", 70,
	},
}

// Names that YAML takes for a number or a truth value are texts, and a variable has the value that it is given: Kubernetes makes one dollar of
// two.
func TestOddValues(t *testing.T) {
	text := testworld.Must(helm(t, "template", "true", directory, "--set-string", "existingConfigMap=1,tls.secret=on,operators.secret=1e3,nameOverride=null",
		"--set-string", "variables.a=$(HOME)", "--set", "serviceMonitor.enabled=true"))(t)
	pod := deployment(t, text).Spec.Template
	if got := pod.Labels["app.kubernetes.io/instance"]; got != "true" {
		t.Errorf("the label is %q", got)
	}
	if !slices.Contains(pod.Spec.Containers[0].Args, "--var=a=$$(HOME)") {
		t.Errorf("the arguments are %q", pod.Spec.Containers[0].Args)
	}
}

// threats.md 575: each release has the objects that its values ask for, which are valid. No object is or has a secret, and its pods are
// restricted.
func TestReleases(t *testing.T) {
	valid := newValidator(t)
	for _, release := range releases {
		t.Run(release.name, func(t *testing.T) {
			testworld.Must(helm(t, append([]string{"lint", "--strict", directory}, release.flags...)...))(t)
			text := render(t, release.flags...)
			if got := strings.Join(kinds(t, text), " "); got != release.kinds {
				t.Errorf("kinds = %s, want %s", got, release.kinds)
			}
			for _, problem := range invalid(valid, text) {
				t.Error(problem)
			}
			pods := deployment(t, text).Spec
			for _, problem := range unrestricted(t, pods.Template) {
				t.Error(problem)
			}
			gateway := pods.Template.Spec.Containers[0]
			replicas := int32(0)
			if pods.Replicas != nil {
				replicas = *pods.Replicas
			}
			if gateway.Image != release.image || replicas != release.replicas || *pods.Template.Spec.TerminationGracePeriodSeconds != release.gracePeriod {
				t.Errorf("%s, %d replicas, %d seconds, want %s, %d, %d", gateway.Image, replicas, *pods.Template.Spec.TerminationGracePeriodSeconds,
					release.image, release.replicas, release.gracePeriod)
			}
			if len(gateway.Env) != 1 || gateway.Env[0].Name != "GOMEMLIMIT" || gateway.Env[0].Value != release.memory {
				t.Errorf("the environment is %v, want GOMEMLIMIT=%s alone", gateway.Env, release.memory)
			}
			if *pods.Template.Spec.AutomountServiceAccountToken {
				t.Error("pods have a token for the API server")
			}
			for _, volume := range pods.Template.Spec.Volumes {
				if p := volume.Projected; p != nil && volume.Name != "identity" && *p.DefaultMode != 0o440 {
					t.Errorf("the files of %s have mode %o, want 440", volume.Name, *p.DefaultMode)
				}
			}
		})
	}
}

// newValidator returns a validator with the schemas of Kubernetes, to which unknown members are wrong, too. The schema of a ServiceMonitor is
// not Kubernetes's.
func newValidator(t *testing.T) validator.Validator {
	t.Helper()
	return testworld.Must(validator.New([]string{schemas(t) + "/{{.ResourceKind}}{{.KindSuffix}}.json"}, validator.Opts{
		Strict: true, SkipKinds: map[string]struct{}{"ServiceMonitor": {}},
	}))(t)
}

// invalid returns what is wrong in objects.
func invalid(v validator.Validator, text string) (problems []string) {
	for _, result := range v.Validate("chart", io.NopCloser(strings.NewReader(text))) {
		if result.Err != nil {
			problems = append(problems, result.Err.Error())
		}
	}
	return problems
}

// unrestricted returns how pods violate the Pod Security Standard "restricted".
func unrestricted(t *testing.T, pods corev1.PodTemplateSpec) (problems []string) {
	t.Helper()
	evaluator := testworld.Must(policy.NewEvaluator(policy.DefaultChecks(), nil))(t)
	for _, result := range evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pods.ObjectMeta, &pods.Spec) {
		if !result.Allowed {
			problems = append(problems, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return problems
}

// The judges of TestReleases find a misspelt member, a value of another type, and a pod with more rights.
func TestJudges(t *testing.T) {
	text, valid := render(t, config...), newValidator(t)
	for old, replacement := range map[string]string{
		"maxSurge: 1": "maxSurges: 1", "periodSeconds: 1": "periodSeconds: often", "unhealthyPodEvictionPolicy": "evictionPolicy", "type: ClusterIP": "type: [ClusterIP]",
	} {
		if problems := invalid(valid, strings.Replace(text, old, replacement, 1)); len(problems) != 1 {
			t.Errorf("%s: problems = %q, want 1", replacement, problems)
		}
	}
	pods := deployment(t, text).Spec.Template
	pods.Spec.SecurityContext, pods.Spec.Containers[0].SecurityContext = nil, nil
	if problems := unrestricted(t, pods); len(problems) < 4 {
		t.Errorf("without securityContext, problems = %q, want 4 or more", problems)
	}
}

// The schema of values has those of values.yaml, and testdata/all.yaml another one for each.
func TestSchemaOfValues(t *testing.T) {
	var schema struct{ Properties map[string]any }
	var defaults, all map[string]any
	for name, document := range map[string]any{directory + "/values.schema.json": &schema, directory + "/values.yaml": &defaults, "testdata/all.yaml": &all} {
		testworld.Check(t, yaml.Unmarshal(testworld.Must(os.ReadFile(name))(t), document))
	}
	delete(schema.Properties, "global") // helm adds it to a chart that another one contains
	if got, want := slices.Sorted(maps.Keys(defaults)), slices.Sorted(maps.Keys(schema.Properties)); !slices.Equal(got, want) {
		t.Errorf("values.yaml has %q, want %q", got, want)
	}
	for name, value := range defaults {
		if set, found := all[name]; name != "config" && name != "existingConfigMap" && (!found || reflect.DeepEqual(set, value)) {
			t.Errorf("testdata/all.yaml has %v for %s, want another value than %v", set, name, value)
		}
	}
}

// A value that is wrong, unknown, or a secret is refused, with its name.
func TestWrongValues(t *testing.T) {
	for flag, want := range map[string]string{
		"replicas=three":                       "/replicas",
		"replicaCount=2":                       "'replicaCount' not allowed",
		"image.tag=latest":                     "/image/tag",
		"image.digest=0123456789abcdef":        "/image/digest",
		"operators.token=0123456789abcdef":     "'token' not allowed",
		"secrets[0].name=a,secrets[0].value=b": "'value' not allowed",
		"secrets[0]=apis":                      "/secrets/0",
		"resources.limits.memory=4G":           "/resources/limits/memory",
		"resources.limits.memory=null":         "missing property 'memory'",
	} {
		_, err := helm(t, append([]string{"template", directory}, append(slices.Clone(config), "--set", flag)...)...)
		testworld.WantError(t, flag, err, want)
	}
	_, err := helm(t, "template", directory)
	testworld.WantError(t, "no connectors", err, "add --set-file config=connectors.yaml, or --set existingConfigMap=NAME")
}

// A change of connectors changes no pod, because running pods read it.
func TestChangedConnectors(t *testing.T) {
	original, changed := deployment(t, render(t, config...)), deployment(t, render(t, "--set", "config=connectors: []"))
	if !reflect.DeepEqual(original, changed) {
		t.Errorf("the Deployment is %v, want %v", changed, original)
	}
}
