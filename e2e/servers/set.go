package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// The environment variables through which tests find the servers.
const (
	EnvPG     = "DELTAD_TEST_PG"        // the superuser's DSN
	EnvS3     = "DELTAD_TEST_S3"        // name=url,name=url
	EnvKey    = "DELTAD_TEST_S3_KEY"    // access key of every S3 server
	EnvSecret = "DELTAD_TEST_S3_SECRET" // its secret
	EnvBin    = "DELTAD_TEST_BIN"       // directory of versitygw and weed
)

// Set is all the servers, running.
type Set struct {
	Postgres *Postgres
	S3       []*S3 // versitygw, seaweedfs

	bin string
}

// StartAll starts PostgreSQL, versitygw and SeaweedFS side by side; the two S3
// binaries, versitygw and weed, are taken from the directory bin. If one does
// not start, those that did are stopped.
func StartAll(ctx context.Context, bin string) (*Set, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, fmt.Errorf("find the servers' binaries: %w", err)
	}
	set := &Set{bin: bin}
	var versitygw, seaweedfs *S3
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		set.Postgres, err = StartPostgres(ctx)
		return err
	})
	g.Go(func() (err error) {
		versitygw, err = StartVersitygw(ctx, filepath.Join(bin, "versitygw"))
		return err
	})
	g.Go(func() (err error) {
		seaweedfs, err = StartSeaweedFS(ctx, filepath.Join(bin, "weed"))
		return err
	})
	err = g.Wait()
	for _, s := range []*S3{versitygw, seaweedfs} {
		if s != nil {
			set.S3 = append(set.S3, s)
		}
	}
	if err != nil {
		return nil, errors.Join(err, set.Stop())
	}
	return set, nil
}

// Env returns the variables that tests read, as NAME=value.
func (s *Set) Env() []string {
	var eps []string
	for _, x := range s.S3 {
		eps = append(eps, x.Name+"="+x.URL)
	}
	return []string{
		EnvPG + "=" + s.Postgres.DSN,
		EnvS3 + "=" + strings.Join(eps, ","),
		EnvKey + "=" + AccessKey,
		EnvSecret + "=" + SecretKey,
		EnvBin + "=" + s.bin,
	}
}

// Stop ends every server and removes their data.
func (s *Set) Stop() error {
	var errs []error
	for _, x := range s.S3 {
		errs = append(errs, x.Stop())
	}
	if s.Postgres != nil {
		errs = append(errs, s.Postgres.Stop())
	}
	return errors.Join(errs...)
}

// LogTails returns about the last n bytes of each server's log, under its name.
func (s *Set) LogTails(n int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "--- end of the log of postgres\n%s\n", s.Postgres.LogTail(n))
	for _, x := range s.S3 {
		fmt.Fprintf(&b, "--- end of the log of %s\n%s\n", x.Name, x.LogTail(n))
	}
	return b.String()
}

// Endpoint is where a running S3 server is.
type Endpoint struct {
	Name string // "versitygw" or "seaweedfs"
	URL  string
}

// Env is what a test finds in its environment.
type Env struct {
	PG          string     // the superuser's DSN
	S3          []Endpoint // at least two
	Key, Secret string     // for every S3 server
	BinDir      string     // where versitygw and weed are
}

// FromEnv reads the variables that withservers sets. A missing one is an error,
// never a reason to skip a test.
func FromEnv() (Env, error) {
	var e Env
	for name, dst := range map[string]*string{EnvPG: &e.PG, EnvKey: &e.Key, EnvSecret: &e.Secret, EnvBin: &e.BinDir} {
		if *dst = os.Getenv(name); *dst == "" {
			return Env{}, fmt.Errorf("read %s: it is not set; run the tests with `make test`", name)
		}
	}
	for ep := range strings.SplitSeq(os.Getenv(EnvS3), ",") {
		name, url, ok := strings.Cut(ep, "=")
		if !ok || name == "" || url == "" {
			return Env{}, fmt.Errorf("read %s: want name=url,name=url, got %q; run the tests with `make test`", EnvS3, os.Getenv(EnvS3))
		}
		e.S3 = append(e.S3, Endpoint{Name: name, URL: url})
	}
	if len(e.S3) < 2 {
		return Env{}, fmt.Errorf("read %s: want two servers of different make, got %q", EnvS3, os.Getenv(EnvS3))
	}
	return e, nil
}
