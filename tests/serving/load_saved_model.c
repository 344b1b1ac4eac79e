/* Loads SavedModels and runs them as TensorFlow Serving does: by a session of
 * the C API, where no Python checks what is fed.
 *
 * Reads commands from standard input, of words between white space:
 *
 *   load DIRECTORY                    (to the end of the line)
 *   feed TENSOR TYPE RANK DIM ... VALUE ...
 *   fetch TENSOR
 *   run
 *
 * TENSOR is a name such as `serve_tokens:0`, TYPE a number of TF_DataType,
 * VALUE a number, or for strings `x` and two hexadecimal digits a byte. `run`
 * forgets feeds and fetches and prints one line: `error` and why, or `ok` and
 * as many lines `TYPE DIM ... : VALUE ...` as were fetched. What cannot be
 * loaded, and wrong commands, end the program.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"

#define MAX_RANK 8
#define MAX_TENSORS 64
#define MAX_WORD 65536

static char word[MAX_WORD];

static void fail(const char* what, const char* why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static const char* next_word(void) {
  if (scanf("%65535s", word) != 1) fail("command", "ends too early");
  return word;
}

static int64_t next_integer(void) { return strtoll(next_word(), NULL, 10); }

static void load(const char* directory, TF_Graph** graph,
                 TF_Session** session) {
  const char* tags[] = {"serve"};
  TF_Status* status = TF_NewStatus();
  TF_SessionOptions* options = TF_NewSessionOptions();
  if (*session != NULL) {
    TF_CloseSession(*session, status);
    TF_DeleteSession(*session, status);
    TF_DeleteGraph(*graph);
  }
  *graph = TF_NewGraph();
  *session = TF_LoadSessionFromSavedModel(options, NULL, directory, tags, 1,
                                          *graph, NULL, status);
  if (TF_GetCode(status) != TF_OK) fail(directory, TF_Message(status));
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
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

static void read_string(TF_TString* string) {
  size_t length, i;
  char* bytes;
  next_word();
  length = (strlen(word) - 1) / 2;
  bytes = malloc(length + 1);
  for (i = 0; i < length; ++i) {
    unsigned byte;
    if (sscanf(word + 1 + 2 * i, "%2x", &byte) != 1) fail(word, "not hex");
    bytes[i] = (char)byte;
  }
  TF_StringInit(string);
  TF_StringCopy(string, bytes, length);
  free(bytes);
}

static TF_Tensor* read_tensor(void) {
  int64_t dims[MAX_RANK], count = 1, i;
  TF_DataType type = (TF_DataType)next_integer();
  int rank = (int)next_integer(), axis;
  size_t width;
  TF_Tensor* tensor;
  void* data;
  if (rank > MAX_RANK) fail("feed", "too many axes");
  for (axis = 0; axis < rank; ++axis) {
    dims[axis] = next_integer();
    count *= dims[axis];
  }
  width = type == TF_STRING ? sizeof(TF_TString) : TF_DataTypeSize(type);
  tensor = TF_AllocateTensor(type, dims, rank, (size_t)count * width);
  data = TF_TensorData(tensor);
  for (i = 0; i < count; ++i) {
    switch (type) {
      case TF_STRING: read_string((TF_TString*)data + i); break;
      case TF_FLOAT: ((float*)data)[i] = strtof(next_word(), NULL); break;
      case TF_DOUBLE: ((double*)data)[i] = strtod(next_word(), NULL); break;
      case TF_INT32: ((int32_t*)data)[i] = (int32_t)next_integer(); break;
      case TF_INT64: ((int64_t*)data)[i] = next_integer(); break;
      case TF_BOOL: ((uint8_t*)data)[i] = next_integer() != 0; break;
      default: fail("feed", "of an unknown type");
    }
  }
  return tensor;
}

static void print_string(const TF_TString* string) {
  const char* bytes = TF_StringGetDataPointer(string);
  size_t i;
  printf(" x");
  for (i = 0; i < TF_StringGetSize(string); ++i) {
    printf("%02x", (unsigned char)bytes[i]);
  }
}

static void print_tensor(const TF_Tensor* tensor) {
  const void* data = TF_TensorData(tensor);
  const TF_DataType type = TF_TensorType(tensor);
  int64_t i;
  int axis;
  printf("%d ", (int)type);
  for (axis = 0; axis < TF_NumDims(tensor); ++axis) {
    printf("%lld ", (long long)TF_Dim(tensor, axis));
  }
  printf(":");
  for (i = 0; i < TF_TensorElementCount(tensor); ++i) {
    switch (type) {
      case TF_STRING: print_string((const TF_TString*)data + i); break;
      case TF_FLOAT: printf(" %.9g", ((const float*)data)[i]); break;
      case TF_DOUBLE: printf(" %.17g", ((const double*)data)[i]); break;
      case TF_INT32: printf(" %d", (int)((const int32_t*)data)[i]); break;
      case TF_INT64:
        printf(" %lld", (long long)((const int64_t*)data)[i]);
        break;
      case TF_BOOL: printf(" %d", ((const uint8_t*)data)[i]); break;
      default: fail("output", "of an unknown type");
    }
  }
  printf("\n");
}

static void run(TF_Session* session, const TF_Output* inputs,
                TF_Tensor* const* feeds, int feed_count,
                const TF_Output* outputs, int fetch_count) {
  TF_Tensor* results[MAX_TENSORS] = {NULL};
  TF_Status* status = TF_NewStatus();
  int i;
  TF_SessionRun(session, NULL, inputs, feeds, feed_count, outputs, results,
                fetch_count, NULL, 0, NULL, status);
  if (TF_GetCode(status) != TF_OK) {
    const char* c;
    printf("error %d ", (int)TF_GetCode(status));
    for (c = TF_Message(status); *c; ++c) putchar(*c == '\n' ? ' ' : *c);
    printf("\n");
  } else {
    printf("ok\n");
    for (i = 0; i < fetch_count; ++i) {
      print_tensor(results[i]);
      TF_DeleteTensor(results[i]);
    }
  }
  TF_DeleteStatus(status);
}

int main(void) {
  TF_Graph* graph = NULL;
  TF_Session* session = NULL;
  TF_Output inputs[MAX_TENSORS], outputs[MAX_TENSORS];
  TF_Tensor* feeds[MAX_TENSORS];
  int feed_count = 0, fetch_count = 0, i;
  while (scanf("%65535s", word) == 1) {
    if (strcmp(word, "load") == 0) {
      if (scanf(" %65535[^\n]", word) != 1) fail("load", "no directory");
      load(word, &graph, &session);
    } else if (session == NULL) {
      fail(word, "nothing is loaded");
    } else if (strcmp(word, "feed") == 0 && feed_count < MAX_TENSORS) {
      inputs[feed_count] = find(graph, next_word());
      feeds[feed_count++] = read_tensor();
    } else if (strcmp(word, "fetch") == 0 && fetch_count < MAX_TENSORS) {
      outputs[fetch_count++] = find(graph, next_word());
    } else if (strcmp(word, "run") == 0) {
      run(session, inputs, feeds, feed_count, outputs, fetch_count);
      for (i = 0; i < feed_count; ++i) TF_DeleteTensor(feeds[i]);
      feed_count = fetch_count = 0;
    } else {
      fail(word, "no such command");
    }
  }
  return 0;
}
