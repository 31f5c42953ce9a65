// Package side has the two sides of a measurement: deltad as a daemon that
// keeps running, and DuckDB in a process of its own, each read from outside.
//
// Both get the same files, the same number of threads and the same memory.
package side

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/deltad/deltad/bench/meter"
	"github.com/deltad/deltad/e2e/duck"
)

// asDuckDB is the variable that makes a program of this package's a child that
// answers one question and ends.
const asDuckDB = "DELTAD_BENCH_DUCKDB"

// Question is what a DuckDB process is asked.
type Question struct {
	Threads int    `json:"threads"`
	Memory  int64  `json:"memory"` // bytes
	Temp    string `json:"temp"`   // directory of what does not fit
	SQL     string `json:"sql"`
}

type answer struct {
	CPU, Wall time.Duration
	Peak      int64
	Error     string
}

// Child answers one question, where the process was started for that: main and
// TestMain begin with it. It says whether it did.
func Child() bool {
	if os.Getenv(asDuckDB) == "" {
		return false
	}
	var a answer
	q, err := io.ReadAll(os.Stdin)
	if err == nil {
		a, err = ask(context.Background(), q)
	}
	if err != nil {
		a.Error = err.Error()
	}
	// A parent that is gone reads nothing.
	_ = json.NewEncoder(os.Stdout).Encode(a)
	return true
}

// ask costs what the query costs: starting the process and opening the
// database come before it.
func ask(ctx context.Context, question []byte) (a answer, err error) {
	var q Question
	if err := json.Unmarshal(question, &q); err != nil {
		return a, fmt.Errorf("decode the question: %w", err)
	}
	db, err := duck.Open(ctx)
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, s := range []string{
		fmt.Sprintf("SET threads = %d", q.Threads),
		fmt.Sprintf("SET memory_limit = '%dMiB'", q.Memory>>20),
		fmt.Sprintf("SET temp_directory = '%s'", q.Temp),
	} {
		if err := db.Exec(ctx, s); err != nil {
			return a, err
		}
	}
	before, err := meter.CPU(os.Getpid())
	if err != nil {
		return a, err
	}
	began := time.Now()
	if err := db.Exec(ctx, q.SQL); err != nil {
		return a, err
	}
	a.Wall = time.Since(began)
	after, err := meter.CPU(os.Getpid())
	if err != nil {
		return a, err
	}
	a.CPU = after - before
	a.Peak, err = meter.Peak(os.Getpid())
	return a, err
}

// DuckDB runs one statement in a new process of the program itself and returns
// what the statement cost.
func DuckDB(ctx context.Context, q Question) (meter.Usage, error) {
	self, err := os.Executable()
	if err != nil {
		return meter.Usage{}, fmt.Errorf("find the program itself: %w", err)
	}
	in, err := json.Marshal(q)
	if err != nil {
		return meter.Usage{}, fmt.Errorf("encode the question: %w", err)
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), asDuckDB+"=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return meter.Usage{}, fmt.Errorf("run duckdb: %w", err)
	}
	var a answer
	if err := json.Unmarshal(out, &a); err != nil {
		return meter.Usage{}, fmt.Errorf("decode duckdb's answer %q: %w", out, err)
	}
	if a.Error != "" {
		return meter.Usage{}, fmt.Errorf("run duckdb: %s", a.Error)
	}
	return meter.Usage{CPU: a.CPU, Wall: a.Wall, Peak: a.Peak}, nil
}
