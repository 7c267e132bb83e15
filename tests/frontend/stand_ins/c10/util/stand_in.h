// What c10's 16-bit and 8-bit classes share. The macros are expanded in headers named as those of c10.
#pragma once
#ifdef __CUDA__
#define C10_HD __attribute__((host)) __attribute__((device))
#else
#define C10_HD
#endif

// A class that widens to float, and narrows from it: Half, BFloat16, Float8_*.
#define C10_CLASS(Type, Bits)                                                          \
  namespace c10 {                                                                      \
  struct Type {                                                                        \
    Bits x;                                                                            \
    struct from_bits_t {};                                                             \
    static constexpr C10_HD from_bits_t from_bits() { return from_bits_t(); }          \
    Type() = default;                                                                  \
    constexpr C10_HD Type(Bits bits, from_bits_t) : x(bits) {}                         \
    inline C10_HD Type(float value);                                                   \
    inline C10_HD operator float() const;                                              \
  };                                                                                   \
  inline C10_HD Type::Type(float value) : x(static_cast<Bits>(value)) {}               \
  inline C10_HD Type::operator float() const { return static_cast<float>(x); }         \
  inline C10_HD Type operator-(const Type& a) { return -static_cast<float>(a); }       \
  C10_ARITHMETIC(Type, +)                                                              \
  C10_ARITHMETIC(Type, -)                                                              \
  C10_ARITHMETIC(Type, *)                                                              \
  C10_ARITHMETIC(Type, /)                                                              \
  }

#define C10_ARITHMETIC(Type, op)                                                                              \
  inline C10_HD Type operator op(const Type& a, const Type& b) {                                              \
    return static_cast<float>(a) op static_cast<float>(b);                                                    \
  }                                                                                                           \
  inline C10_HD Type& operator op##=(Type& a, const Type& b) { return a = a op b; }                           \
  inline C10_HD float operator op(Type a, float b) { return static_cast<float>(a) op b; }                     \
  inline C10_HD float operator op(float a, Type b) { return a op static_cast<float>(b); }                     \
  inline C10_HD float& operator op##=(float& a, const Type& b) { return a op##= static_cast<float>(b); }      \
  inline C10_HD double operator op(Type a, double b) { return static_cast<double>(a) op b; }                  \
  inline C10_HD double operator op(double a, Type b) { return a op static_cast<double>(b); }                  \
  inline C10_HD Type operator op(Type a, int b) { return a op static_cast<Type>(b); }                         \
  inline C10_HD Type operator op(int a, Type b) { return static_cast<Type>(a) op b; }

#define C10_SIXTEEN_BIT(Type) C10_CLASS(Type, unsigned short)
#define C10_EIGHT_BIT(Type) C10_CLASS(Type, unsigned char)
