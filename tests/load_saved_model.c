/* Loads a SavedModel as TensorFlow Serving does, feeds one float tensor and
 * prints the outputs.
 *
 * Usage: load_saved_model DIRECTORY INPUT DIMS OUTPUT [OUTPUT ...]
 * with tensor names such as `serve_tokens:0` and DIMS such as `2,5,3`. The
 * input's values are read from standard input. Each output gets one line: its
 * dimensions, a colon, its values.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

#define MAX_RANK 8
#define MAX_OUTPUTS 16

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static void check(const TF_Status* status, const char* what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static TF_Output find(TF_Graph* graph, const char* name) {
  char operation[512];
  const char* colon = strrchr(name, ':');
  TF_Output output;
  if (colon == NULL || (size_t)(colon - name) >= sizeof operation) {
    fail(name, "not a tensor name");
  }
  memcpy(operation, name, colon - name);
  operation[colon - name] = '\0';
  output.oper = TF_GraphOperationByName(graph, operation);
  output.index = atoi(colon + 1);
  if (output.oper == NULL) fail(name, "not in the graph");
  return output;
}

static TF_Tensor* read_input(const char* text) {
  int64_t dims[MAX_RANK];
  int rank = 0;
  size_t count = 1, i;
  TF_Tensor* tensor;
  float* values;
  while (*text != '\0' && rank < MAX_RANK) {
    char* end;
    dims[rank] = strtol(text, &end, 10);
    count *= (size_t)dims[rank++];
    text = *end == ',' ? end + 1 : end;
  }
  tensor = TF_AllocateTensor(TF_FLOAT, dims, rank, count * sizeof(float));
  values = (float*)TF_TensorData(tensor);
  for (i = 0; i < count; ++i) {
    if (scanf("%f", &values[i]) != 1) fail("input", "too few values");
  }
  return tensor;
}

static void print(const TF_Tensor* tensor) {
  const float* values = (const float*)TF_TensorData(tensor);
  int64_t i;
  int axis;
  if (TF_TensorType(tensor) != TF_FLOAT) fail("output", "not float32");
  for (axis = 0; axis < TF_NumDims(tensor); ++axis) {
    printf("%lld ", (long long)TF_Dim(tensor, axis));
  }
  printf(":");
  for (i = 0; i < TF_TensorElementCount(tensor); ++i) {
    printf(" %.9g", values[i]);
  }
  printf("\n");
}

int main(int argc, char** argv) {
  const char* tags[] = {"serve"};
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_Session* session;
  TF_Output input, outputs[MAX_OUTPUTS];
  TF_Tensor* value;
  TF_Tensor* results[MAX_OUTPUTS];
  int i, count = argc - 4;

  if (count < 1 || count > MAX_OUTPUTS) fail(argv[0], "wrong arguments");
  session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1,
                                         graph, NULL, status);
  check(status, "load");
  input = find(graph, argv[2]);
  value = read_input(argv[3]);
  for (i = 0; i < count; ++i) outputs[i] = find(graph, argv[4 + i]);

  TF_SessionRun(session, NULL, &input, &value, 1, outputs, results, count,
                NULL, 0, NULL, status);
  check(status, "run");
  for (i = 0; i < count; ++i) {
    print(results[i]);
    TF_DeleteTensor(results[i]);
  }

  TF_DeleteTensor(value);
  TF_CloseSession(session, status);
  check(status, "close");
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  return 0;
}
