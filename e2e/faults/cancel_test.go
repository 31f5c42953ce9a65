//go:build integration

package faults_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/deltad/deltad/e2e/faults/s3proxy"
	"github.com/deltad/deltad/e2e/servers"
	"github.com/deltad/deltad/microbatch"
	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/s3"
)

var putOptions = store.PutOptions{IfNoneMatch: true}

// TestB30LateAppearingObjects cancels a step while a put is under way that
// arrives only when a successor has published: it changes nothing.
func TestB30LateAppearingObjects(t *testing.T) {
	t.Parallel()
	const late = 1500 * time.Millisecond
	for _, e := range env.S3 {
		for _, pl := range places {
			if !pl.puts() {
				continue
			}
			t.Run(e.Name+"/"+pl.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, e, worldOptions{})
				w.produce()
				w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				w.follow()
				w.produce()
				w.proxy.Add(s3proxy.Rule{Match: pl.match, Fault: s3proxy.Late(late), Times: 1})
				w.proxy.Take()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					for ctx.Err() == nil && !w.hit() {
						time.Sleep(5 * time.Millisecond)
					}
					cancel()
				}()
				began := time.Now()
				r := w.engine.p.Once(ctx, w.now(), microbatch.StepOptions{})
				if r.Outcome != microbatch.Failed || !errors.Is(r.Err, context.Canceled) {
					t.Errorf("the cancelled step: %s (%v)", r.Outcome, r.Err)
				}
				cancel()
				w.read()
				w.engine.restart()
				// The put is still under way: a step that it overtakes may fail.
				if r := w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}); r.Err != nil {
					t.Logf("the step that it overtook: %v", r.Err)
				}
				w.read()
				time.Sleep(time.Until(began.Add(late + 500*time.Millisecond)))
				met.add("arrives after a cancel", pl.name, w.proxy.Clear(), true)
				w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				w.same()
				w.produce()
				w.recovered(w.engine.p.Once(t.Context(), w.now(), microbatch.StepOptions{}))
				w.same()
				w.agrees()
			})
		}
	}
}

// TestB30MultipartIsAborted cancels an upload in parts while a part is under
// way: nothing is left in the bucket.
func TestB30MultipartIsAborted(t *testing.T) {
	t.Parallel()
	for _, e := range env.S3 {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			p, err := s3proxy.New(e.URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			bucket, root := newRoot(t, e.URL)
			st := openBucket(t, p.URL, bucket, root, s3.Options{})
			part := func(r s3proxy.Request) bool { return r.Op == s3proxy.Upload && len(r.Body) > 1<<20 }
			p.Add(s3proxy.Rule{Match: part, Fault: s3proxy.Stalled(time.Minute), Skip: 1})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			go func() {
				for ctx.Err() == nil && !faulted(p) {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}()
			_, err = st.Put(ctx, "large", bytes.NewReader(make([]byte, 25<<20)), putOptions)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the upload: %v", err)
			}
			hits := p.Clear()
			met.add("cancelled", "upload in parts", hits, true)
			if hits == 0 {
				t.Error("no part was under way")
			}
			out, err := servers.NewClient(e.URL).ListMultipartUploads(t.Context(), &awss3.ListMultipartUploadsInput{Bucket: &bucket, Prefix: aws.String(root + "/")})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Uploads) > 0 {
				t.Errorf("%d uploads are left", len(out.Uploads))
			}
			if _, err := st.Head(t.Context(), "large"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the object: %v, want none", err)
			}
		})
	}
}
