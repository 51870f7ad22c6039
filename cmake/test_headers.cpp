// Only there to make the precompiled header of the tests: see test_code.cmake.
int main() {}
