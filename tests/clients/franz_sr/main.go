// franz-go's registry client: a schema is registered, evolved, refused and used by its Serde.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const user = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}`
const withAge = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int","default":-1}]}`
const needsAge = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":"int"}]}`

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	ctx, subject := context.Background(), os.Args[2]
	client := must(sr.NewClient(sr.URLs(os.Args[1])))
	first := must(client.CreateSchema(ctx, subject, sr.Schema{Schema: user}))
	again := must(client.CreateSchema(ctx, subject, sr.Schema{Schema: user}))
	_, refused := client.CreateSchema(ctx, subject, sr.Schema{Schema: needsAge})
	second := must(client.CreateSchema(ctx, subject, sr.Schema{Schema: withAge}))
	compatible := must(client.CheckCompatibility(ctx, subject, -1, sr.Schema{Schema: needsAge}))
	byID := must(client.SchemaByID(ctx, first.ID))
	versions := must(client.SubjectVersions(ctx, subject))
	level := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, subject)[0]
	var serde sr.Serde
	serde.Register(first.ID, map[string]string{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	data := must(serde.Encode(map[string]string{"name": "anna"}))
	id, _, err := serde.DecodeID(data)
	must(0, err)
	deleted := must(client.DeleteSubject(ctx, subject, sr.SoftDelete))
	told := map[string]any{
		"first": first.Version, "again": again.ID == first.ID, "refused": refused != nil, "second": second.Version,
		"compatible": compatible.Is, "byID": byID.Schema, "versions": versions, "level": level.Level.String(),
		"id": id == first.ID, "deleted": deleted,
	}
	fmt.Println(string(must(json.Marshal(told))))
}
