package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"pgregory.net/rapid"
)

// asTheSDK is what the SDK reads in an answer.
func asTheSDK(ctx context.Context, body []byte) (listed, error) {
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	client := awss3.New(awss3.Options{
		Region: "us-east-1", UsePathStyle: true, BaseEndpoint: aws.String("http://h"), HTTPClient: answering{resp}, Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	out, err := client.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: aws.String("b")})
	if err != nil {
		return listed{}, err
	}
	return listedBy(out), nil
}

// heldToTheSDK fails if an answer is taken that the SDK does not take, or not so; ok is whether it was taken.
func heldToTheSDK(ctx context.Context, t interface{ Fatalf(string, ...any) }, body []byte) (ok bool) {
	got, ok := parseListing(body)
	if !ok {
		return false
	}
	want, err := asTheSDK(ctx, body)
	if err != nil {
		t.Fatalf("%q\nis taken for %+v, the SDK says %v", body, got, err)
	}
	if len(got.prefixes) == 0 {
		got.prefixes = []string{}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%q\nis taken for\n%+v\nand by the SDK for\n%+v", body, got, want)
	}
	return true
}

// TestListingsAreReadAsTheSDKReadsThem makes answers as stores give them, most of them damaged or odd in some way.
func TestListingsAreReadAsTheSDKReadsThem(t *testing.T) {
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "ads/2026/11/30/a.parquet", "p/%25+b", "a&amp;b&lt;&gt;&quot;&apos;", "&#34;e&#x22;", "&#10;", "&#xe9;", "&nbsp;", "é", " x\n ", "]]>", "a;b", "&amp", "\r\n", "\x01"})
		plain := rapid.SampledFrom([]string{"ads/a.parquet", "&quot;e1&quot;", "x"})
		value := func() string {
			if rapid.IntRange(0, 5).Draw(t, "odd") == 0 {
				return text.Draw(t, "text")
			}
			return plain.Draw(t, "plain")
		}
		space := func() string { return rapid.SampledFrom([]string{"", "", "", "\n  ", " ", "\t"}).Draw(t, "space") }
		element := func(name, text string) string {
			switch rapid.IntRange(0, 40).Draw(t, "form") {
			case 0:
				return fmt.Sprintf("<%s/>", name)
			case 1:
				return fmt.Sprintf("<%s>%s</%[1]s>", strings.ToLower(name), text)
			case 2:
				return fmt.Sprintf("<%s a=\"b\">%s</%[1]s>", name, text)
			case 3:
				return fmt.Sprintf("<%s><X>%s</X></%[1]s>", name, text)
			case 4:
				return fmt.Sprintf("<%s>%s</%[1]s ><!-- -->", name, text)
			case 5:
				return fmt.Sprintf("<%s><![CDATA[%s]]></%[1]s>", name, text)
			}
			return fmt.Sprintf("<%s>%s</%[1]s>", name, text) + space()
		}
		number := func() string { return rapid.SampledFrom([]string{"0", "7", "258305", "-1", "9223372036854775807", "9223372036854775808", "1000", "+3"}).Draw(t, "number") }
		var b strings.Builder
		b.WriteString(rapid.SampledFrom([]string{"", `<?xml version="1.0" encoding="UTF-8"?>`, `<?xml version="1.0" encoding="utf-8"?>` + "\n", `<?xml version="1.0"?>`, "\n"}).Draw(t, "prolog"))
		b.WriteString(rapid.SampledFrom([]string{"<ListBucketResult>", `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`, `<ListBucketResult xmlns="x" a="b">`}).Draw(t, "root"))
		for range rapid.IntRange(0, 6).Draw(t, "elements") {
			b.WriteString(space())
			switch rapid.IntRange(0, 9).Draw(t, "element") {
			case 0:
				b.WriteString(element("IsTruncated", rapid.SampledFrom([]string{"true", "false", "1", "maybe"}).Draw(t, "truncated")))
			case 1:
				b.WriteString(element("NextContinuationToken", value()))
			case 2:
				b.WriteString(element("EncodingType", rapid.SampledFrom([]string{"url", "URL", ""}).Draw(t, "encoding")))
			case 3:
				b.WriteString(element(rapid.SampledFrom([]string{"KeyCount", "MaxKeys"}).Draw(t, "count"), number()))
			case 4:
				b.WriteString(element(rapid.SampledFrom([]string{"Name", "Prefix", "StartAfter", "Delimiter", "Strange", "1x", "prefix"}).Draw(t, "name"), value()))
			case 5:
				b.WriteString("<CommonPrefixes>" + element("Prefix", value()) + "</CommonPrefixes>")
			default:
				b.WriteString("<Contents>" + space())
				for range rapid.IntRange(0, 5).Draw(t, "fields") {
					switch rapid.IntRange(0, 6).Draw(t, "field") {
					case 0, 1:
						b.WriteString(element("Key", value()))
					case 2:
						b.WriteString(element("ETag", value()))
					case 3:
						b.WriteString(element("Size", number()))
					case 4:
						b.WriteString(element("LastModified", rapid.SampledFrom([]string{"2026-11-30T10:00:00.000Z", "2026-11-30T10:00:00Z", "2026-11-30T12:00:00+02:00", "yesterday", ""}).Draw(t, "modified")))
					case 5:
						b.WriteString(element(rapid.SampledFrom([]string{"StorageClass", "ChecksumAlgorithm", "ChecksumType", "Type", "RestoreStatus"}).Draw(t, "other"), value()))
					case 6:
						b.WriteString("<Owner>" + element("ID", value()) + element("DisplayName", value()) + "</Owner>")
					}
				}
				b.WriteString("</Contents>")
			}
		}
		b.WriteString("</ListBucketResult>" + space())
		body := []byte(b.String())
		if rapid.IntRange(0, 3).Draw(t, "damaged") == 0 {
			i := rapid.IntRange(0, len(body)-1).Draw(t, "where")
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				body = body[:i]
			case 1:
				body[i] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
			case 2:
				body = append(body, body[i:]...)
			}
		}
		if heldToTheSDK(context.Background(), t, body) {
			taken++
		}
	})
	t.Logf("%d answers were read without the SDK", taken)
	if taken < 10 {
		t.Fatalf("%d answers were read without the SDK", taken)
	}
}

// FuzzListing: what is read without the SDK is what the SDK reads.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><KeyCount>1</KeyCount><IsTruncated>true</IsTruncated>` +
		`<NextContinuationToken>t</NextContinuationToken><EncodingType>url</EncodingType><Contents><Key>a%2Bb</Key><LastModified>2026-11-30T10:00:00.000Z</LastModified><ETag>&quot;e&quot;</ETag>` +
		`<Owner><ID>1</ID><DisplayName>x</DisplayName></Owner><Size>3</Size><StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>p/</Prefix></CommonPrefixes></ListBucketResult>`))
	f.Add([]byte("<ListBucketResult></ListBucketResult>"))
	f.Fuzz(func(t *testing.T, body []byte) { heldToTheSDK(t.Context(), t, body) })
}

// TestAnswerThatBreaksOff: an error on the way is the SDK's to see, behind all that came before.
func TestAnswerThatBreaksOff(t *testing.T) {
	ctx, ahead := reading(t.Context())
	const head = "<ListBucketResult><Contents><Key>a</Key>"
	resp := &http.Response{Body: struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(head), failing{io.ErrUnexpectedEOF}), io.NopCloser(nil)}}
	read(ctx, resp)
	b, err := io.ReadAll(resp.Body)
	if ahead.ok || string(b) != head || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%t, %q, %v", ahead.ok, b, err)
	}
}
