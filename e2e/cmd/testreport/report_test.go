package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestSteps(t *testing.T) {
	tests := []struct {
		name, args string
		want       string // the steps, or the error
	}{
		{"one", ".,e2e -race -tags integration ./...", "[env [] modules [. e2e] args [-race -tags integration ./...]]"},
		{
			"several", "A=1 B=x=y . -run TestA|TestB ./a -- e2e ./soak -- bench",
			"[env [A=1 B=x=y] modules [.] args [-run TestA|TestB ./a] env [] modules [e2e] args [./soak] env [] modules [bench] args []]",
		},
		{"a flag with a value by =", ". -timeout=20m", "[env [] modules [.] args [-timeout=20m]]"},
		{"none", "", "a step names no module"},
		{"an end without a step", ". ./a --", "a step names no module"},
		{"only variables", "A=1", "a step names no module"},
		{"no module before the flags", "-race ./...", "a step names no module"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			steps, err := stepsOf(strings.Fields(tt.args))
			var got []string
			for _, s := range steps {
				got = append(got, fmt.Sprintf("env %v modules %v args %v", s.env, s.modules, s.args))
			}
			if text := fmt.Sprint(got); err == nil && text != tt.want || err != nil && err.Error() != tt.want {
				t.Errorf("%s, %v; want %s", text, err, tt.want)
			}
		})
	}
}

// TestEveryStepRunsTests: what an earlier step ran does not stand in for a
// later one, whose -run may name nothing.
func TestEveryStepRunsTests(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	for l := range strings.Lines(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`) {
		r.line([]byte(l))
	}
	r.endModule(".", nil)
	r.line([]byte(`{"Action":"pass","Package":"q"}`))
	r.endModule("e2e", nil)
	r.finish(time.Second)
	if r.ok() || !strings.Contains(out.String(), "go test in e2e: no test ran") || !strings.Contains(out.String(), "\n1 passed, 1 failed\n") {
		t.Errorf("ok %v:\n%s", r.ok(), out.String())
	}
}

func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		input  string
		exit   error
		ok     bool
		want   []string // parts of the output, in order
		absent string
	}{
		{
			name: "all passed, parents are not counted",
			input: `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    noise\n"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1.5}
`,
			ok:     true,
			want:   []string{"ok    p  2 passed  1.5s", "\n2 passed, 0 failed\n"},
			absent: "noise",
		},
		{
			name: "a failed subtest shows its output",
			input: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"=== RUN   TestA/x\n"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    x_test.go:3: got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`,
			exit:   errors.New("exit status 1"),
			want:   []string{"FAIL  p  0 passed, 1 failed", "--- FAIL: p TestA/x", "got 1, want 2", "\n0 passed, 1 failed\n"},
			absent: "=== RUN",
		},
		{
			name: "a name with a slash does not make a parent of another test",
			input: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA/x","Output":"    x_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/x/y"}
{"Action":"pass","Package":"p","Test":"TestA/x/y"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}
`,
			exit:   errors.New("exit status 1"),
			want:   []string{"FAIL  p  1 passed, 1 failed", "--- FAIL: p TestA/x\n", "wrong", "\n1 passed, 1 failed\n"},
			absent: "--- FAIL: p TestA\n",
		},
		{
			name: "a skipped test fails the run and gives its reason",
			input: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestS"}
{"Action":"output","Package":"p","Test":"TestS","Output":"=== RUN   TestS\n"}
{"Action":"output","Package":"p","Test":"TestS","Output":"    s_test.go:9: no server\n"}
{"Action":"output","Package":"p","Test":"TestS","Output":"--- SKIP: TestS (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestS"}
{"Action":"pass","Package":"p"}
`,
			want: []string{"--- SKIP: p TestS: s_test.go:9: no server", "\n1 passed, 0 failed, 1 skipped\n"},
		},
		{
			name: "a package without tests is not a skipped test",
			input: `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
{"Action":"skip","Package":"q"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`,
			ok:     true,
			want:   []string{"\n1 passed, 0 failed\n"},
			absent: "q",
		},
		{
			name: "a package that does not build",
			input: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"./p.go:4:2: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}
`,
			exit: errors.New("exit status 1"),
			want: []string{"--- FAIL: p\n", "undefined: x", "\n0 passed, 1 failed\n"},
		},
		{
			name: "a test that was running when its package died",
			input: `{"Action":"run","Package":"p","Test":"TestHang"}
{"Action":"output","Package":"p","Test":"TestHang","Output":"panic: test timed out after 1s\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}
{"Action":"fail","Package":"p"}
`,
			exit: errors.New("exit status 1"),
			want: []string{"--- FAIL: p TestHang", "timed out", "did not finish", "\n0 passed, 1 failed\n"},
		},
		{
			name: "a panic outside any test",
			input: `{"Action":"output","Package":"p","Output":"panic: in TestMain\n"}
{"Action":"fail","Package":"p"}
`,
			exit: errors.New("exit status 1"),
			want: []string{"--- FAIL: p\n", "in TestMain", "\n0 passed, 1 failed\n"},
		},
		{
			name: "go test failed and nothing says why",
			input: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
`,
			exit: errors.New("exit status 1"),
			want: []string{"go test in . ended with: exit status 1", "\n1 passed, 1 failed\n"},
		},
		{
			name: "the output ends inside a package",
			input: `{"Action":"run","Package":"p","Test":"TestA"}
`,
			exit: errors.New("signal: killed"),
			want: []string{"--- FAIL: p TestA", "did not finish", "\n0 passed, 1 failed\n"},
		},
		{
			name:  "lines that are no events are passed on, and no test is a failure",
			input: "go: warning: matched no packages\n",
			want:  []string{"matched no packages", "go test in .: no test ran", "\n0 passed, 1 failed\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			for l := range strings.Lines(tt.input) {
				r.line([]byte(l))
			}
			r.endModule(".", tt.exit)
			r.finish(time.Second)
			if r.ok() != tt.ok {
				t.Errorf("ok is %v, want %v", r.ok(), tt.ok)
			}
			rest := out.String()
			for _, w := range tt.want {
				_, after, found := strings.Cut(rest, w)
				if !found {
					t.Fatalf("%q is missing, or out of order, in\n%s", w, out.String())
				}
				// The next part may begin with the line end of this one.
				rest = w[len(w)-1:] + after
			}
			if tt.absent != "" && strings.Contains(out.String(), tt.absent) {
				t.Errorf("%q should not be in\n%s", tt.absent, out.String())
			}
		})
	}
}
