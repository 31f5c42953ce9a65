package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/s3"
)

// BenchmarkList lists 1,440 partitions of four objects, six pages that lie ready.
func BenchmarkList(b *testing.B) {
	const objects = 5760
	pages := map[string]string{}
	for from := 0; from < objects; from += store.MaxPage {
		var x strings.Builder
		fmt.Fprintf(&x, `<?xml version="1.0" encoding="UTF-8"?>`+"\n"+`<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bkt</Name><Prefix>ads/</Prefix><KeyCount>1000</KeyCount><MaxKeys>1000</MaxKeys><EncodingType>url</EncodingType><IsTruncated>%t</IsTruncated>`, from+store.MaxPage < objects)
		if from+store.MaxPage < objects {
			fmt.Fprintf(&x, `<NextContinuationToken>t%d</NextContinuationToken>`, from+store.MaxPage)
		}
		for i := from; i < min(from+store.MaxPage, objects); i++ {
			fmt.Fprintf(&x, `<Contents><Key>ads/2026/11/30/%02d/%02d/part-%d.parquet</Key><LastModified>2026-11-30T10:00:00.000Z</LastModified><ETag>&quot;%032x&quot;</ETag><ChecksumAlgorithm>CRC32</ChecksumAlgorithm><ChecksumType>FULL_OBJECT</ChecksumType><Size>258305</Size><StorageClass>STANDARD</StorageClass></Contents>`, i/4/60, i/4%60, i%4, i)
		}
		x.WriteString(`</ListBucketResult>`)
		token := ""
		if from > 0 {
			token = fmt.Sprintf("t%d", from)
		}
		pages[token] = x.String()
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write([]byte(pages[r.URL.Query().Get("continuation-token")]))
	}))
	defer srv.Close()
	st, err := s3.New(b.Context(), s3.Options{
		Bucket: "bkt", Region: "us-east-1", Endpoint: srv.URL, PathStyle: true, PartSize: 5 << 20,
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for p, err := range store.Pages(b.Context(), st, store.ListOptions{Prefix: "ads/"}) {
			if err != nil {
				b.Fatal(err)
			}
			n += len(p.Objects)
		}
		if n != objects {
			b.Fatal(n)
		}
	}
}
