//go:build integration

package flights_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/servers"
)

// leastPanes is what a ride over all days has to publish, of which everybody is
// away for two.
const leastPanes = (days - 2) * 12

// TestServers drives over the same flights on files with SQLite and on every
// S3 server with Postgres, side by side: every pane has the same bytes
// everywhere.
func TestServers(t *testing.T) {
	env, err := servers.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", env.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", env.Secret)
	cases := []struct {
		name string
		o    options
	}{
		{"ndjson", options{seed: 11, format: "ndjson", dead: "NULL", hours: days * 24, rest: 60}},
		{"parquet", options{seed: 12, format: "parquet", deletes: `delete_when: "delay > 90"`, dead: "(delay > 90)", hours: days * 24, rest: 60}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.o.places = []place{embedded(t, 1)}
			for _, e := range env.S3 {
				c.o.places = append(c.o.places, remote(t, env, e, c.name))
			}
			began := time.Now()
			s := drive(t, c.o)
			t.Logf("%s in %s", s, time.Since(began).Round(time.Second))
			if s.panes < leastPanes || s.recomputed == 0 || s.refined == 0 || s.restarts == 0 {
				t.Errorf("the ride met too little: %s", s)
			}
		})
	}
}

// TestServersFull is TestServers with a full index rebuilt every day: the files
// of every pane and of every base have the same bytes everywhere.
func TestServersFull(t *testing.T) {
	env, err := servers.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", env.Key)
	t.Setenv("AWS_SECRET_ACCESS_KEY", env.Secret)
	cases := []struct {
		name string
		o    options
	}{
		{"full-ndjson", options{seed: 31, format: "ndjson", dead: "NULL", promote: "auto", hours: days * 24, rest: 90, every: 3}},
		{"full-parquet", options{
			seed: 32, format: "parquet", deletes: `delete_when: "delay > 90"`, dead: "(delay > 90)", promote: "manual", hours: days * 24, rest: 90, every: 3,
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.o.places = []place{embedded(t, 1)}
			for _, e := range env.S3 {
				c.o.places = append(c.o.places, remote(t, env, e, c.name))
			}
			began := time.Now()
			s, f := driveFull(t, c.o)
			t.Logf("%s; %s in %s", s, f, time.Since(began).Round(time.Second))
			if s.panes < leastPanes || s.refined == 0 || f.rebuilds < days-4 || f.promotions < days-4 || f.overlaps == 0 || f.stale == 0 || longRide && f.unread == 0 {
				t.Errorf("the ride met too little: %s; %s", s, f)
			}
		})
	}
}

// remote is a bucket of an S3 server and a database of its own.
func remote(t *testing.T, env servers.Env, e servers.Endpoint, suffix string) place {
	t.Helper()
	buckets := servers.Buckets{Prefix: "flights-" + e.Name + "-" + suffix}
	name, err := buckets.On(t.Context(), e.URL)
	if err != nil {
		t.Fatal(err)
	}
	state, err := servers.NewDatabase(t.Context(), env.PG, strings.ReplaceAll(name, "-", "_"))
	if err != nil {
		t.Fatal(err)
	}
	return place{
		name: e.Name, state: state, raw: "s3://" + name + "/raw", index: "s3://" + name + "/index", workers: 8,
		s3: fmt.Sprintf("{region: us-east-1, endpoint: %q, path_style: true}", e.URL),
	}
}
