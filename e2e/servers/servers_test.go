//go:build integration

package servers_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"

	"github.com/deltad/deltad/e2e/servers"
)

func env(t *testing.T) servers.Env {
	t.Helper()
	e, err := servers.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestPostgresSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pg, err := servers.StartPostgres(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopped(t, pg.Stop()) })

	c, err := pgx.Connect(ctx, pg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, "create table kept (n int)"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := c.Exec(ctx, "insert into kept values ($1)", i); err != nil {
			t.Fatal(err)
		}
	}
	pg.Kill() // with the session open
	if err := pg.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, "select 1"); err == nil {
		t.Error("a session outlived its server's crash")
	}
	c2, err := pgx.Connect(ctx, pg.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close(context.WithoutCancel(ctx))
	var n int
	if err := c2.QueryRow(ctx, "select count(*) from kept").Scan(&n); err != nil || n != 100 {
		t.Errorf("after the crash %d of 100 committed rows are there, err %v", n, err)
	}
}

func TestS3SurvivesKill(t *testing.T) {
	t.Parallel()
	bin := env(t).BinDir
	for name, start := range map[string]func(context.Context) (*servers.S3, error){
		"versitygw": func(ctx context.Context) (*servers.S3, error) {
			return servers.StartVersitygw(ctx, filepath.Join(bin, "versitygw"))
		},
		"seaweedfs": func(ctx context.Context) (*servers.S3, error) {
			return servers.StartSeaweedFS(ctx, filepath.Join(bin, "weed"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			began := time.Now()
			s, err := start(ctx)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { stopped(t, s.Stop()) })
			t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
			c := s.Client()
			b := aws.String("kept")
			if _, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: b}); err != nil {
				t.Fatal(err)
			}
			body := bytes.Repeat([]byte("deltad"), 10_000)
			put(t, c, "kept", "a/b=1/x", body)

			s.Kill()
			if _, err := c.ListBuckets(ctx, &s3.ListBucketsInput{}); err == nil {
				t.Error("a killed server answered")
			}
			began = time.Now()
			if err := s.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			t.Logf("restarted in %s", time.Since(began).Round(time.Millisecond))
			o, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: aws.String("a/b=1/x")})
			if err != nil {
				t.Fatal(err)
			}
			defer o.Body.Close()
			got, err := io.ReadAll(o.Body)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("after the crash the object has %d bytes, want %d; err %v", len(got), len(body), err)
			}
		})
	}
}

// The servers of the environment are those that deltad's own tests run on:
// what they are relied on for is checked here first, without deltad's code.
func TestS3ServersEnforceConditions(t *testing.T) {
	t.Parallel()
	for _, ep := range env(t).S3 {
		t.Run(ep.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			c := servers.NewClient(ep.URL)
			b := "conditions-" + ep.Name
			if _, err := c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &b}); err != nil {
				t.Fatal(err)
			}
			conditional := func(body string, ifMatch, ifNoneMatch *string) (string, error) {
				o, err := c.PutObject(ctx, &s3.PutObjectInput{
					Bucket: &b, Key: aws.String("k"), Body: strings.NewReader(body),
					IfMatch: ifMatch, IfNoneMatch: ifNoneMatch,
				})
				if err != nil {
					return "", err
				}
				return aws.ToString(o.ETag), nil
			}
			star := aws.String("*")
			first, err := conditional("one", nil, star)
			if err != nil {
				t.Fatalf("create: %v", err)
			}
			if _, err := conditional("two", nil, star); status(err) != http.StatusPreconditionFailed {
				t.Errorf("create again: status %d, want 412 (%v)", status(err), err)
			}
			second, err := conditional("three", &first, nil)
			if err != nil {
				t.Errorf("put with the right etag: %v", err)
			}
			if _, err := conditional("four", &first, nil); status(err) != http.StatusPreconditionFailed {
				t.Errorf("put with a stale etag: status %d, want 412 (%v)", status(err), err)
			}
			if _, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &b, Key: aws.String("k"), IfNoneMatch: &second}); status(err) != http.StatusNotModified {
				t.Errorf("get with If-None-Match: status %d, want 304 (%v)", status(err), err)
			}
			o, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &b, Key: aws.String("k")})
			if err != nil {
				t.Fatal(err)
			}
			defer o.Body.Close()
			if got, err := io.ReadAll(o.Body); err != nil || string(got) != "three" {
				t.Errorf("body is %q, want that of the last accepted put; err %v", got, err)
			}
		})
	}
}

func TestS3ServersRefuseStrangers(t *testing.T) {
	t.Parallel()
	for _, ep := range env(t).S3 {
		for name, id := range map[string][2]string{
			"unknown key":  {"nobody", servers.SecretKey},
			"wrong secret": {servers.AccessKey, "guess"},
		} {
			t.Run(ep.Name+" "+name, func(t *testing.T) {
				t.Parallel()
				o := servers.NewClient(ep.URL).Options()
				o.Credentials = credentials.NewStaticCredentialsProvider(id[0], id[1], "")
				_, err := s3.New(o).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("ready")})
				if status(err) != http.StatusForbidden {
					t.Errorf("status %d, want 403 (%v)", status(err), err)
				}
			})
		}
	}
}

func TestS3ServersNameTheMissing(t *testing.T) {
	t.Parallel()
	for _, ep := range env(t).S3 {
		t.Run(ep.Name, func(t *testing.T) {
			t.Parallel()
			c := servers.NewClient(ep.URL)
			_, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("no-such-bucket"), Key: aws.String("k"), Body: strings.NewReader("x")})
			if status(err) != http.StatusNotFound {
				t.Errorf("put into a missing bucket: status %d, want 404 (%v)", status(err), err)
			}
			_, err = c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("ready"), Key: aws.String("no-such-key")})
			if status(err) != http.StatusNotFound {
				t.Errorf("get of a missing key: status %d, want 404 (%v)", status(err), err)
			}
		})
	}
}

func put(t *testing.T, c *s3.Client, bucket, key string, body []byte) {
	t.Helper()
	if _, err := c.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body)}); err != nil {
		t.Fatal(err)
	}
}

func stopped(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("stop: %v", err)
	}
}

// status returns the HTTP status of an SDK error, 0 if it has none.
func status(err error) int {
	var re *awshttp.ResponseError
	if errors.As(err, &re) {
		return re.HTTPStatusCode()
	}
	return 0
}
