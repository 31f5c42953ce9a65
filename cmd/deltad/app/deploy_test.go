package app

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/deltad/deltad/configs"
	"github.com/deltad/deltad/microbatch/combine"
)

// These tests hold the files of docs/deploy, the Dockerfile and what they say
// about each other to what the daemon is.

const deployDir = "../../../docs/deploy"

// drain is how long a daemon takes to leave at the worst: the grace of a run
// in hand, then leases and endpoint.
const drain = 25*time.Second + 5*time.Second

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// documents decodes every document of a YAML file; a key written twice is an
// error.
func documents(t *testing.T, path string) []node {
	t.Helper()
	var out []node
	for d := yaml.NewDecoder(bytes.NewReader([]byte(readFile(t, path)))); ; {
		var v map[string]any
		switch err := d.Decode(&v); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatalf("%s: %v", path, err)
		case len(v) > 0:
			out = append(out, node{t, path, v})
		}
	}
}

// node is a value in a YAML file that knows where it stands.
type node struct {
	t  *testing.T
	at string
	v  any
}

// get follows keys, and numbers of list entries, down.
func (n node) get(path ...any) node {
	n.t.Helper()
	for _, p := range path {
		switch key := p.(type) {
		case string:
			m, _ := n.v.(map[string]any)
			v, ok := m[key]
			if !ok {
				n.t.Fatalf("%s has no %s", n.at, key)
			}
			n = node{n.t, n.at + "." + key, v}
		case int:
			l, _ := n.v.([]any)
			if key >= len(l) {
				n.t.Fatalf("%s has no entry %d", n.at, key)
			}
			n = node{n.t, n.at, l[key]}
		}
	}
	return n
}

func (n node) has(key string) bool {
	m, _ := n.v.(map[string]any)
	_, ok := m[key]
	return ok
}

// is holds a value to one written in YAML.
func (n node) is(want string) {
	n.t.Helper()
	got, err := yaml.MarshalWithOptions(n.v, yaml.Flow(true))
	if err != nil {
		n.t.Fatal(err)
	}
	if g := strings.TrimSpace(string(got)); g != want {
		n.t.Errorf("%s is %s, want %s", n.at, g, want)
	}
}

func (n node) text() string {
	n.t.Helper()
	s, ok := n.v.(string)
	if !ok {
		n.t.Fatalf("%s is %v, want a text", n.at, n.v)
	}
	return s
}

// loaded is a configuration of docs/deploy without anything wrong or doubtful.
func loaded(t *testing.T, path string, env configs.Env) *configs.Config {
	t.Helper()
	fns := configs.Fns{Names: slices.Collect(maps.Keys(combine.Builtins())), Refused: combine.Refused}
	c, err := configs.LoadValid(path, env, fns)
	if err != nil {
		t.Fatalf("%s:\n%v", path, err)
	}
	for _, w := range c.Warnings() {
		t.Errorf("%s warns: %s", path, w)
	}
	return c
}

func noEnv(string) (string, bool) { return "", false }

func TestCompose(t *testing.T) {
	docs := documents(t, filepath.Join(deployDir, "compose.yaml"))
	if len(docs) != 1 {
		t.Fatalf("%d documents", len(docs))
	}
	c := docs[0]
	d := c.get("services", "deltad")
	d.get("read_only").is("true")
	d.get("cap_drop").is("[ALL]")
	d.get("user").is(`"65532:65532"`)
	d.get("security_opt").is(`["no-new-privileges:true"]`)
	d.get("restart").is("unless-stopped")
	if grace, err := time.ParseDuration(d.get("stop_grace_period").text()); err != nil || grace <= drain {
		t.Errorf("stop_grace_period %s is not above %s: %v", grace, drain, err)
	}
	for _, name := range []string{"deltad", "postgres", "s3"} {
		s := c.get("services", name)
		s.get("healthcheck", "test", 0).is("CMD")
		if name != "deltad" {
			d.get("depends_on", name, "condition").is("service_healthy")
		}
	}
	c.get("services", "s3", "depends_on", "buckets", "condition").is("service_completed_successfully")
	image := c.get("services", "s3", "image").text()
	if _, version, _ := strings.Cut(image, ":"); !strings.Contains(readFile(t, "../../../.ci/tools/versitygw/go.mod"), "/versitygw "+version+" ") {
		t.Errorf("the tests run against another version than %s", image)
	}
	var tested []string
	for _, a := range d.get("healthcheck", "test").v.([]any) {
		tested = append(tested, a.(string))
	}
	if !slices.Equal(tested[1:3], []string{"/deltad", "health"}) {
		t.Errorf("health is checked by %q", tested)
	}

	// The configuration that is mounted, and that what it names is there.
	mount := d.get("volumes", 0)
	mount.get("target").is("/etc/deltad/deltad.yaml")
	cfg := loaded(t, filepath.Join(deployDir, mount.get("source").text()), noEnv)
	secrets := c.get("secrets")
	for _, file := range []string{cfg.State.PasswordFile, cfg.Admin.TokenFile, d.get("environment", "AWS_SHARED_CREDENTIALS_FILE").text()} {
		name, ok := strings.CutPrefix(file, "/run/secrets/")
		if !ok || !secrets.has(name) || !slices.Contains(d.get("secrets").v.([]any), any(name)) {
			t.Errorf("%s is no secret of the service", file)
		}
	}
	for _, p := range cfg.Pipelines {
		for _, url := range []string{p.Source.URL, p.Output.URL} {
			bucket, _, _ := strings.Cut(strings.TrimPrefix(url, "s3://"), "/")
			if !slices.Contains(c.get("services", "buckets", "entrypoint").v.([]any), any("/data/"+bucket)) {
				t.Errorf("nobody makes the bucket of %s", url)
			}
		}
	}
}

// kinds are the objects of the manifest by kind; there is one of each.
func kinds(t *testing.T) map[string]node {
	t.Helper()
	all := map[string]node{}
	for _, d := range documents(t, filepath.Join(deployDir, "kubernetes.yaml")) {
		kind := d.get("kind").text()
		if _, twice := all[kind]; twice {
			t.Fatalf("two of %s", kind)
		}
		d.at = kind
		all[kind] = d
		if kind != "Namespace" {
			d.get("metadata", "namespace").is("deltad")
		}
	}
	return all
}

func TestKubernetes(t *testing.T) {
	all := kinds(t)
	for kind, version := range map[string]string{
		"Namespace": "v1", "ServiceAccount": "v1", "Secret": "v1", "ConfigMap": "v1", "Service": "v1",
		"Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1", "NetworkPolicy": "networking.k8s.io/v1",
	} {
		if all[kind].v == nil {
			t.Fatalf("there is no %s", kind)
		}
		all[kind].get("apiVersion").is(version)
	}
	d := all["Deployment"].get("spec")
	d.get("replicas").is("2")
	d.get("strategy").is("{rollingUpdate: {maxSurge: 1, maxUnavailable: 0}, type: RollingUpdate}")
	pod := d.get("template", "spec")
	if seconds, ok := pod.get("terminationGracePeriodSeconds").v.(uint64); !ok || time.Duration(seconds)*time.Second <= drain {
		t.Errorf("terminationGracePeriodSeconds %d is not above %s", seconds, drain)
	}
	pod.get("securityContext", "runAsNonRoot").is("true")
	pod.get("securityContext", "seccompProfile").is("{type: RuntimeDefault}")
	pod.get("automountServiceAccountToken").is("false")
	c := pod.get("containers", 0)
	c.get("securityContext").is("{allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, readOnlyRootFilesystem: true}")
	c.get("args").is("[run, -c, /etc/deltad/deltad.yaml]")
	c.get("resources", "limits", "memory").is("2Gi")
	for probe, path := range map[string]string{"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		c.get(probe, "httpGet").is("{path: " + path + ", port: admin}")
	}
	labels := d.get("template", "metadata", "labels")
	labels.is("{app.kubernetes.io/name: deltad}")
	for _, selector := range []node{
		d.get("selector", "matchLabels"), all["Service"].get("spec", "selector"),
		all["PodDisruptionBudget"].get("spec", "selector", "matchLabels"), all["NetworkPolicy"].get("spec", "podSelector", "matchLabels"),
	} {
		selector.is("{app.kubernetes.io/name: deltad}")
	}
	d.get("template", "metadata", "annotations", "prometheus.io/port").is(`"8480"`)
}

// TestKubernetesConfiguration: the file in the ConfigMap is valid, listens
// where the probes ask, and finds its secrets where they are mounted.
func TestKubernetesConfiguration(t *testing.T) {
	all := kinds(t)
	cfg := loaded(t, fileOf(t, "deltad.yaml", all["ConfigMap"].get("data", "deltad.yaml").text()), noEnv)
	if cfg.Admin.Listen != "0.0.0.0:8480" {
		t.Errorf("admin.listen %s", cfg.Admin.Listen)
	}
	c := all["Deployment"].get("spec", "template", "spec", "containers", 0)
	c.get("ports").is("[{containerPort: 8480, name: admin}]")
	mounted := map[string]bool{}
	for i := range c.get("volumeMounts").v.([]any) {
		mounted[c.get("volumeMounts", i, "mountPath").text()] = true
	}
	for _, file := range []string{cfg.State.PasswordFile, cfg.Admin.TokenFile, c.get("env", 0, "value").text()} {
		if dir, name := filepath.Split(file); !mounted[filepath.Clean(dir)] || !all["Secret"].get("stringData").has(name) {
			t.Errorf("%s is not mounted from the Secret", file)
		}
	}
	if !mounted["/tmp"] || !mounted["/etc/deltad"] {
		t.Errorf("mounted are %v", mounted)
	}
}

func TestServiceUnit(t *testing.T) {
	unit := map[string][]string{}
	for line := range strings.Lines(readFile(t, filepath.Join(deployDir, "deltad.service"))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			unit[key] = append(unit[key], value)
		}
	}
	for key, want := range map[string]string{
		"Type": "exec", "Restart": "always", "KillSignal": "SIGTERM", "DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		"StateDirectory": "deltad", "StartLimitIntervalSec": "0", "ExecStart": "/usr/local/bin/deltad run -c /etc/deltad/deltad.yaml",
	} {
		if !slices.Equal(unit[key], []string{want}) {
			t.Errorf("%s is %q, want %s", key, unit[key], want)
		}
	}
	if stop, err := time.ParseDuration(unit["TimeoutStopSec"][0] + "s"); err != nil || stop <= drain {
		t.Errorf("TimeoutStopSec %s is not above %s: %v", stop, drain, err)
	}
	env := func(name string) (string, bool) {
		return "/run/credentials/deltad.service", name == "CREDENTIALS_DIRECTORY"
	}
	cfg := loaded(t, filepath.Join(deployDir, "service.deltad.yaml"), env)
	for _, file := range []string{cfg.State.PasswordFile, cfg.Admin.TokenFile} {
		name := filepath.Base(file)
		if !slices.ContainsFunc(unit["LoadCredential"], func(c string) bool { return strings.HasPrefix(c, name+":") }) {
			t.Errorf("systemd does not load the credential %s", name)
		}
	}
	if unit["MemoryMax"][0] != "2G" || cfg.Limits.Memory > 2<<30/10*8 {
		t.Errorf("limits.memory %d of MemoryMax %s", cfg.Limits.Memory, unit["MemoryMax"])
	}
}

// TestDockerfile: the compiler is the module's, what is built is the program,
// and the build sees every package and no secret.
func TestDockerfile(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	text := readFile(t, filepath.Join(root, "Dockerfile"))
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(readFile(t, filepath.Join(root, "go.mod")))
	image := regexp.MustCompile(`(?m)^FROM .*golang:([0-9.]+)-`).FindStringSubmatch(text)
	if version == nil || image == nil || version[1] != image[1] {
		t.Errorf("go.mod wants %q, the image has %q", version, image)
	}
	for _, want := range []string{
		"CGO_ENABLED=0", "-trimpath", "github.com/deltad/deltad/cmd/deltad/app.Version=", "\nFROM scratch\n", "\nUSER 65532:65532\n", "\nSTOPSIGNAL SIGTERM\n",
		"\nENTRYPOINT [\"/deltad\"]\n", "\nCMD [\"run\", \"-c\", \"/etc/deltad/deltad.yaml\"]\n", `CMD ["/deltad", "health", "-c", "/etc/deltad/deltad.yaml"]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the Dockerfile lacks %q", want)
		}
	}
	listed := map[string]bool{}
	for line := range strings.Lines(readFile(t, filepath.Join(root, ".dockerignore"))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			listed[name] = true
		}
	}
	want := map[string]bool{"go.mod": true, "go.sum": true}
	dirs, err := filepath.Glob(filepath.Join(root, "[a-z]*", ""))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || !holdsGo(t, dir) {
			continue // a module of its own, or no code
		}
		want[filepath.Base(dir)] = true
	}
	if !maps.Equal(listed, want) {
		t.Errorf(".dockerignore lets in %q, the program is made of %q", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(want)))
	}
}

// holdsGo says whether there is Go code of this module in or below dir.
func holdsGo(t *testing.T, dir string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			found = true
			return filepath.SkipAll
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
