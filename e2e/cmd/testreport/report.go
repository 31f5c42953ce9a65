package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"
)

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action      string
	Package     string
	ImportPath  string // instead of Package, in what the build says
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string // the ImportPath whose build failed the package
}

// test is what is known of one test of one package.
type test struct {
	result string // "", "pass", "fail" or "skip"; "" is still running, or died
	output strings.Builder
	parent bool // has subtests, is not counted
}

// pkg is what is known of one package.
type pkg struct {
	tests  map[string]*test
	order  []string // names in order of first appearance
	output strings.Builder
}

// subtestFailed says whether a test below name failed, or died with it. What
// looks like a subtest may only have a slash in its name, so that a test that
// looks like a parent can fail alone.
func (p *pkg) subtestFailed(name string) bool {
	for other, t := range p.tests {
		if strings.HasPrefix(other, name+"/") && (t.result == "fail" || t.result == "") {
			return true
		}
	}
	return false
}

// report collects the events of all modules. It prints a package's line as soon
// as it ends and everything else in finish.
type report struct {
	out  io.Writer
	pkgs map[string]*pkg
	// builds has what the compiler said, by import path, until it is printed.
	builds map[string]*strings.Builder

	passed, failed int
	failures       []string // texts, complete with output
	skipped        []string // names
	moduleFailures int      // failures seen since the module began
	moduleTests    int      // tests that ended since, however
}

func newReport(out io.Writer) *report {
	return &report{out: out, pkgs: map[string]*pkg{}, builds: map[string]*strings.Builder{}}
}

// line takes one line of output. One that is no event is passed on: go itself
// writes such lines, for example when no package matches.
func (r *report) line(b []byte) {
	var e event
	if err := json.Unmarshal(b, &e); err != nil || e.Action == "" {
		fmt.Fprintf(r.out, "%s", b)
		return
	}
	switch {
	case e.Action == "build-output":
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
	case e.Package == "":
	case e.Test == "":
		r.packageEvent(e)
	default:
		r.testEvent(e)
	}
}

func (r *report) pkg(name string) *pkg {
	p := r.pkgs[name]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		r.pkgs[name] = p
	}
	return p
}

func (r *report) testEvent(e event) {
	p := r.pkg(e.Package)
	t := p.tests[e.Test]
	if t == nil {
		t = &test{}
		p.tests[e.Test] = t
		p.order = append(p.order, e.Test)
		for name := e.Test; ; {
			i := strings.LastIndexByte(name, '/')
			if i < 0 {
				break
			}
			name = name[:i]
			if parent := p.tests[name]; parent != nil {
				parent.parent = true
			}
		}
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		t.result = e.Action
		if e.Action == "pass" {
			t.output.Reset() // nobody will ask
		}
	}
}

func (r *report) packageEvent(e event) {
	p := r.pkg(e.Package)
	switch e.Action {
	case "output":
		p.output.WriteString(e.Output)
	case "pass", "fail", "skip":
		r.endPackage(e, p)
		delete(r.pkgs, e.Package)
	}
}

// endPackage counts a package's tests and prints its line. A package that
// failed although no test did (it did not build, it panicked, it ran out of
// time, its TestMain refused) counts as one failure.
func (r *report) endPackage(e event, p *pkg) {
	var passed, failed, skipped int
	for _, name := range p.order {
		t := p.tests[name]
		if t.result == "" {
			if e.Action != "fail" {
				continue // no end of its own, but the package says all is well
			}
			t.result = "fail"
			fmt.Fprintf(&t.output, "    (%s did not finish)\n", name)
		}
		switch t.result {
		case "pass":
			if !t.parent {
				passed++
			}
		case "skip":
			skipped++
			r.skipped = append(r.skipped, fmt.Sprintf("%s %s: %s", e.Package, name, reason(t.output.String())))
		case "fail":
			text := indent(t.output.String())
			// A parent fails with its subtest; it counts, and needs a place in
			// the report, only for what it says itself.
			if own := !p.subtestFailed(name); own || text != "" {
				r.failures = append(r.failures, fmt.Sprintf("%s %s\n%s", e.Package, name, text))
				if own {
					failed++
				}
			}
		}
	}
	if e.Action == "fail" {
		text := p.output.String()
		if b := r.builds[e.FailedBuild]; b != nil {
			text = b.String() + text
		}
		if failed == 0 {
			failed = 1
			r.failures = append(r.failures, e.Package+"\n"+indent(text))
		}
	}
	r.passed += passed
	r.failed += failed
	r.moduleFailures += failed
	r.moduleTests += passed + failed + skipped
	switch {
	case e.Action == "fail":
		fmt.Fprintf(r.out, "FAIL  %s  %d passed, %d failed  %.1fs\n", e.Package, passed, failed, e.Elapsed)
	case passed > 0:
		fmt.Fprintf(r.out, "ok    %s  %d passed  %.1fs\n", e.Package, passed, e.Elapsed)
	}
}

// endModule takes the exit error of one go test. One that no event explains is
// a failure of its own, and so is that no test ran: -run may name none.
func (r *report) endModule(dir string, err error) {
	for name := range r.pkgs {
		r.endPackage(event{Action: "fail", Package: name}, r.pkgs[name])
		delete(r.pkgs, name)
	}
	switch {
	case err != nil && r.moduleFailures == 0:
		r.failed++
		r.failures = append(r.failures, fmt.Sprintf("go test in %s ended with: %v\n", dir, err))
	case err == nil && r.moduleTests == 0:
		r.failed++
		r.failures = append(r.failures, fmt.Sprintf("go test in %s: no test ran\n", dir))
	}
	r.moduleFailures, r.moduleTests = 0, 0
}

// finish prints failures, skips and the last line.
func (r *report) finish(elapsed time.Duration) {
	for _, f := range r.failures {
		fmt.Fprintf(r.out, "\n--- FAIL: %s", f)
	}
	sort.Strings(r.skipped)
	for _, s := range r.skipped {
		fmt.Fprintf(r.out, "\n--- SKIP: %s (a skipped test fails the run)\n", s)
	}
	fmt.Fprintf(r.out, "\ntests took %s\n%d passed, %d failed", elapsed.Round(time.Second), r.passed, r.failed)
	if n := len(r.skipped); n > 0 {
		fmt.Fprintf(r.out, ", %d skipped", n)
	}
	fmt.Fprintln(r.out)
}

// ok says whether tests ran, all passed and none was skipped.
func (r *report) ok() bool {
	return r.passed > 0 && r.failed == 0 && len(r.skipped) == 0
}

// reason is the last line that a skipped test wrote before it was skipped.
func reason(output string) string {
	last := "no reason given"
	for l := range strings.Lines(output) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "===") {
			last = l
		}
	}
	return last
}

// indent drops the lines that only repeat a test's name and result and indents
// the rest.
func indent(output string) string {
	var b strings.Builder
	for l := range strings.Lines(output) {
		if strings.HasPrefix(l, "=== ") || strings.HasPrefix(strings.TrimSpace(l), "--- FAIL: ") {
			continue
		}
		b.WriteString("    ")
		b.WriteString(strings.TrimRight(l, "\n"))
		b.WriteByte('\n')
	}
	return b.String()
}
