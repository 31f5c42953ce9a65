//go:build integration

package s3_test

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/s3"
	"github.com/deltad/deltad/store/storetest"
)

// servers reads DELTAD_TEST_S3: comma-separated name=endpoint.
func servers(t *testing.T) map[string]string {
	t.Helper()
	env := os.Getenv("DELTAD_TEST_S3")
	if env == "" {
		t.Fatal("DELTAD_TEST_S3 is not set: want comma-separated name=http://host:port, with DELTAD_TEST_S3_KEY and DELTAD_TEST_S3_SECRET")
	}
	m := map[string]string{}
	for _, part := range strings.Split(env, ",") {
		name, endpoint, ok := strings.Cut(part, "=")
		if !ok {
			t.Fatalf("DELTAD_TEST_S3: want name=endpoint, got %q", part)
		}
		m[name] = endpoint
	}
	return m
}

// differences are what is known of a server by its name, with the reasons; a name may carry a suffix after "-".
func differences(name string) storetest.Options {
	o := storetest.Options{Rounds: 10, ModelChecks: 150}
	switch base, _, _ := strings.Cut(name, "-"); base {
	case "versitygw":
		o.NoKeyAndChild = "versitygw stores keys as files, so a key cannot be a parent too"
		o.NoEmptySegments = "versitygw resolves empty, . and .. segments as a file system does"
	case "seaweedfs":
		o.NoEmptySegments = "SeaweedFS collapses empty segments and refuses . and .."
		o.ShakyKeyAndChild = "SeaweedFS has once left the child of such a pair out of a listing"
		o.NoBackslash = "SeaweedFS turns a backslash into a slash unless told otherwise"
		o.EmptyPrefixesLinger = "SeaweedFS shows a directory for a while after its last key was deleted"
	}
	return o
}

// bucket opens a new bucket on a server.
func bucket(t *testing.T, endpoint string) *s3.Store {
	t.Helper()
	key, secret := os.Getenv("DELTAD_TEST_S3_KEY"), os.Getenv("DELTAD_TEST_S3_SECRET")
	if key == "" || secret == "" {
		t.Fatal("DELTAD_TEST_S3_KEY and DELTAD_TEST_S3_SECRET are not set")
	}
	st, err := s3.New(t.Context(), s3.Options{
		Bucket: "t-" + strings.ToLower(rand.Text()), Region: "us-east-1", Endpoint: endpoint, PathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(key, secret, ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(st.String(), "s3://")
	if _, err := st.Client().CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatalf("create bucket: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		for info, err := range store.Objects(ctx, st, store.ListOptions{}) {
			if err != nil {
				t.Logf("empty bucket: %v", err)
				break
			}
			if err := st.Delete(ctx, info.Key); err != nil {
				t.Logf("empty bucket: %v", err)
			}
		}
		if _, err := st.Client().DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: &name}); err != nil {
			t.Logf("delete bucket: %v", err)
		}
	})
	return st
}

func TestConformanceOnServers(t *testing.T) {
	for name, endpoint := range servers(t) {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store { return bucket(t, endpoint) }, differences(name))
		})
	}
}

// brief runs what depends on chance less often, where it ran before.
func brief(o storetest.Options) storetest.Options {
	o.Rounds, o.ModelChecks = 1, 50
	return o
}

// TestConformanceOfPrefix roots the view below a prefix of a bucket that holds other things.
func TestConformanceOfPrefix(t *testing.T) {
	for name, endpoint := range servers(t) {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) store.Store {
				st := bucket(t, endpoint)
				for _, k := range []string{"a", "team/adr", "team/ads-old/x", "zz"} {
					if _, err := store.PutBytes(t.Context(), st, k, []byte("other"), store.PutOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				return store.Prefixed(st, "team/ads/")
			}, brief(differences(name)))
		})
	}
}
